// Single keys, wherever the focus is, except where they are typed into something.

import { byId } from "./dom.js";

const KEPT = "ocelad.keys";

/** actions: by key, as KeyboardEvent.key has it in small letters. */
export function setUpKeys(actions) {
  const on = byId("keys-on");
  on.checked = localStorage.getItem(KEPT) !== "off";
  on.addEventListener("change", () => localStorage.setItem(KEPT, on.checked ? "on" : "off"));
  document.addEventListener("keydown", (event) => {
    const action = actions[event.key.toLowerCase()];
    if (!action || !on.checked || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    // A button that has the focus is pressed by space, as everywhere.
    if (event.key === " " && event.target.closest("button, summary, input, a")) return;
    event.preventDefault();
    action();
  });
}
