// Help, the person's name, a token, and the theme: what the header opens.

import { byId } from "./dom.js";
import { keepPersonName, personName } from "./person.js";

const THEMES = { auto: "as the system has them", light: "light", dark: "dark" };

/** Opens a dialog; a click on its ground or on [data-close] closes it. */
function prepare(dialog) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });
  return dialog;
}

export function setUpHelp() {
  const dialog = prepare(byId("help-dialog"));
  const open = () => dialog.open || dialog.showModal();
  byId("help").addEventListener("click", open);
  return open;
}

export function setUpPerson() {
  const dialog = prepare(byId("person-dialog"));
  const input = byId("person-input");
  const show = () => (byId("person-name").textContent = personName());
  show();
  byId("person").addEventListener("click", () => {
    input.value = personName();
    dialog.showModal();
    input.select();
  });
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    keepPersonName(input.value.trim());
    show();
    dialog.close();
  });
}

/** A promise of a token; it cannot be declined, because nothing can be shown without one. */
export function askToken(refused) {
  const dialog = byId("token-dialog");
  const input = byId("token-input");
  byId("token-reason").textContent = refused
    ? "This token is not known here, or was revoked."
    : "This service asks for a token.";
  input.value = "";
  dialog.showModal();
  dialog.oncancel = (event) => event.preventDefault();
  return new Promise((resolve) => {
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      dialog.close();
      resolve(input.value.trim());
    };
  });
}

/** changed(): the colours are others now. */
export function setUpTheme(changed) {
  const root = document.documentElement;
  const button = byId("theme");
  const label = () => {
    const words = `Colours: ${THEMES[root.dataset.theme]}`;
    button.setAttribute("aria-label", words);
    button.title = words;
  };
  label();
  button.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    root.dataset.theme = names[(names.indexOf(root.dataset.theme) + 1) % names.length];
    localStorage.setItem("ocelad.theme", root.dataset.theme);
    label();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
