// A dialog with a form; the service's sentence about a refused form stands beside its field.

import { element } from "./dom.js";
import { prepareDialog } from "./dialogs.js";
import { clearRefusals, showRefusal } from "./refusals.js";
import { say } from "./words.js";

/** Returns a field: a label, an input, a hint, and a place for the service's sentence. */
export function field({ id, label, hint = null, input, refuses }) {
  input.id = id;
  input.setAttribute("aria-describedby", `${hint ? `${id}-hint ` : ""}${id}-refused`);
  return element(
    "div",
    { class: "field" },
    element("label", { for: id }, label),
    input,
    hint ? element("p", { class: "hint", id: `${id}-hint` }, hint) : [],
    element("p", { class: "refused", id: `${id}-refused`, "data-refuses": refuses, role: "alert" }),
  );
}

/** Opens a dialog; send(form): returns a promise of the result, whose rejection is shown in the dialog.
 *  ready(form, submit): called before it opens. Returns a promise of the result; undefined: cancelled. */
export function openFormDialog({ title, text = null, parts, action, style = "same", wide = false, send, ready = () => {} }) {
  const submit = element("button", { type: "submit", class: `answer ${style}` }, action);
  const form = element(
    "form",
    { class: "form", novalidate: true },
    element("h2", { id: "form-dialog-title" }, title),
    text ? element("p", {}, text) : [],
    parts,
    element("p", { class: "refused", "data-refuses": "", role: "alert" }),
    element(
      "div",
      { class: "dialog-end" },
      element("button", { type: "button", class: "answer plain", "data-close": true }, say("cancel")),
      submit,
    ),
  );
  const dialog = element("dialog", { class: wide ? "wide-form" : null, "aria-labelledby": "form-dialog-title" }, form);
  document.body.append(prepareDialog(dialog));
  ready(form, submit);
  dialog.showModal();
  return new Promise((resolve) => {
    let result;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (submit.disabled) return;
      clearRefusals(form);
      submit.disabled = true;
      try {
        result = await send(form);
        dialog.close();
      } catch (error) {
        showRefusal(form, error);
      } finally {
        submit.disabled = false;
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
  });
}
