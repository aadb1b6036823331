// Single keys, wherever the focus is, except where they are typed into something.

import { byId } from "./dom.js";

const KEPT = "ocelad.keys";
const PRESSABLE = "button, summary, input, a";

/** actions: by key, as KeyboardEvent.key has it in small letters. */
export function setUpKeys(actions) {
  const on = byId("keys-on");
  on.checked = localStorage.getItem(KEPT) !== "off";
  on.addEventListener("change", () => localStorage.setItem(KEPT, on.checked ? "on" : "off"));
  // What was clicked keeps the focus, and is not meant by the next key; what was reached by the tab key is.
  let clicked = null;
  document.addEventListener("pointerdown", (event) => (clicked = event.target.closest(PRESSABLE)));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Tab") clicked = null;
    const action = actions[event.key.toLowerCase()];
    if (!action || !on.checked || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const focused = event.target.closest(PRESSABLE);
    // A button that has the focus is pressed by space, as everywhere.
    if (event.key === " " && focused && focused !== clicked) return;
    event.preventDefault();
    focused?.blur();
    action();
  });
}
