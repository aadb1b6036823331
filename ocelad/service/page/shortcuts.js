// Keyboard shortcuts, active unless the focus is in a text field or a selection.

import { byId } from "./dom.js";

const STORAGE_KEY = "ocelad.keys";
const PRESSABLE = "button, summary, input, a";

/** actions: functions by KeyboardEvent.key in lowercase. */
export function setUpShortcuts(actions) {
  const on = byId("keys-on");
  on.checked = localStorage.getItem(STORAGE_KEY) !== "off";
  on.addEventListener("change", () => localStorage.setItem(STORAGE_KEY, on.checked ? "on" : "off"));
  // A button that was clicked keeps the focus, but space should press it only if it was reached with the tab key.
  let clicked = null;
  document.addEventListener("pointerdown", (event) => (clicked = event.target.closest(PRESSABLE)));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Tab") clicked = null;
    const action = actions[event.key.toLowerCase()];
    if (!action || !on.checked || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const focused = event.target.closest(PRESSABLE);
    // Space presses the focused button.
    if (event.key === " " && focused && focused !== clicked) return;
    event.preventDefault();
    focused?.blur();
    action();
  });
}
