// Error messages, shown until they are closed, and announcements for screen readers.

import { byId, element } from "./dom.js";
import { Unreachable } from "./api.js";

/** Shows an error once; not if the service is unreachable, which the connection status shows. */
export function showError(error) {
  if (error instanceof Unreachable || error.name === "AbortError") return;
  const frame = byId("errors");
  const text = sentence(error.message);
  if ([...frame.children].some((notice) => notice.firstChild.textContent === text)) return;
  const close = element("button", { type: "button", class: "quiet icon", "aria-label": "Close this message" }, "×");
  const notice = element("p", { class: "error" }, element("span", {}, text), close);
  close.addEventListener("click", () => notice.remove());
  frame.append(notice);
}

/** Capitalizes a message of the service and adds a period. */
export const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export const announce = (text) => (byId("announcement").textContent = text);
