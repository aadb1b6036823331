// Error messages, shown until they are closed; banners, shown until the page removes them; announcements for screen
// readers.

import { byId, element } from "./dom.js";
import { Unreachable } from "./api.js";
import { say } from "./words.js";

/** Shows an error once; not if the service is unreachable, which the connection status shows. */
export function showError(error) {
  if (error instanceof Unreachable || error.name === "AbortError") return;
  showMessage(sentence(error.message));
}

/** Shows a sentence once, until the person closes it. */
export function showMessage(text) {
  const frame = byId("errors");
  if ([...frame.children].some((notice) => notice.firstChild.textContent === text)) return;
  const close = element("button", { type: "button", class: "quiet icon", "aria-label": say("messages.close") }, "×");
  const notice = element("p", { class: "error" }, element("span", {}, text), close);
  close.addEventListener("click", () => notice.remove());
  frame.append(notice);
}

/** Shows a sentence with buttons below the header, or changes it. actions: [[label, function], ...]. */
export function showBanner(id, text, actions = [], details = "") {
  const buttons = actions.map(([label, action]) => {
    const button = element("button", { type: "button", class: "quiet" }, label);
    button.addEventListener("click", action);
    return button;
  });
  const banner = element(
    "div",
    { class: "banner", "data-banner": id },
    element("p", { role: "status" }, element("strong", {}, text), details ? ` ${details}` : []),
    element("div", { class: "banner-actions" }, buttons),
  );
  const before = findBanner(id);
  if (before) before.replaceWith(banner);
  else byId("banners").append(banner);
}

export const hideBanner = (id) => findBanner(id)?.remove();

const findBanner = (id) => [...byId("banners").children].find((banner) => banner.dataset.banner === id);

/** Capitalizes a message of the service and adds a period. */
export const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export const announce = (text) => (byId("announcement").textContent = text);
