// The service's sentence about a refused form, beside the field that it is about.

import { sentence } from "./messages.js";

/** Removes the sentences of a form. */
export function clearRefusals(form) {
  for (const shown of form.querySelectorAll("[data-refuses]")) shown.textContent = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

/** Shows an error beside the field whose data-refuses has the end of `where`, or else its beginning or a part of it:
 *  "body.cards.title" is shown at cards.title, title, body or cards. */
export function showRefusal(form, error) {
  const parts = (error.where ?? "").split(".");
  const wanted = [...parts.map((_, i) => parts.slice(i).join(".")), ...parts];
  const places = [...form.querySelectorAll("[data-refuses]")];
  const at = (name) => places.find((place) => place.dataset.refuses.split(" ").includes(name));
  const rest = places.find((place) => place.dataset.refuses === "") ?? places[0];
  // The place says what the sentence is about.
  const text = error.where && error.message.startsWith(`${error.where}: `) ? error.message.slice(error.where.length + 2) : error.message;
  refuse(wanted.filter(Boolean).map(at).find(Boolean) ?? rest, sentence(text));
}

/** Shows a sentence beside a field, and moves the focus to it. */
export function refuse(place, text) {
  place.textContent = text;
  const fold = place.closest("details");
  if (fold) fold.open = true;
  const field = place.closest(".field")?.querySelector("input, textarea, select");
  field?.setAttribute("aria-invalid", "true");
  field?.focus();
  place.scrollIntoView({ block: "nearest" });
}
