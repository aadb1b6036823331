// The dialogs for help, the person's name and a token, and the button for the theme.

import { byId } from "./dom.js";
import { personName, savePersonName } from "./person-name.js";

const THEMES = { auto: "system", light: "light", dark: "dark" };

/** Closes a dialog by a click on its backdrop or on [data-close]. */
export function prepareDialog(dialog) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });
  return dialog;
}

export function setUpHelp() {
  const dialog = prepareDialog(byId("help-dialog"));
  const open = () => dialog.open || dialog.showModal();
  byId("help").addEventListener("click", open);
  return open;
}

export function setUpPerson() {
  const dialog = prepareDialog(byId("person-dialog"));
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
    savePersonName(input.value.trim());
    show();
    dialog.close();
  });
}

/** Returns a promise of a token. The dialog cannot be cancelled, because nothing can be shown without a token. */
export function askToken(rejected) {
  const dialog = byId("token-dialog");
  const input = byId("token-input");
  byId("token-reason").textContent = rejected
    ? "This token is unknown or was revoked."
    : "This service requires a token.";
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

/** changed(): called when the colours change. */
export function setUpTheme(changed) {
  const root = document.documentElement;
  const button = byId("theme");
  const update = () => {
    const label = `Colour theme: ${THEMES[root.dataset.theme]}`;
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  update();
  button.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    root.dataset.theme = names[(names.indexOf(root.dataset.theme) + 1) % names.length];
    localStorage.setItem("ocelad.theme", root.dataset.theme);
    update();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
