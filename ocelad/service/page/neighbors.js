// The list of the nearest neighbours of an item.

import { element } from "./dom.js";
import { itemSummary } from "./items.js";
import { formatNumber } from "./numbers.js";
import { nameOf } from "./pair-view.js";
import { say } from "./words.js";

const N_NEIGHBORS = 10;

function thresholdText(threshold) {
  return threshold < 0 ? say("neighbors.none-same") : say("neighbors.threshold", { distance: formatNumber(threshold) });
}

export class NeighborsPanel {
  #api;
  #path;
  #panel;
  #map;
  #item = null;
  #opener = null;

  constructor(api, path, panel, map) {
    [this.#api, this.#path, this.#panel, this.#map] = [api, path, panel, map];
    panel.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  async open(id) {
    if (this.#panel.hidden) this.#opener = document.activeElement;
    this.#item = id;
    await this.refresh();
    this.#panel.querySelector("button")?.focus({ preventScroll: true });
  }

  close() {
    if (this.#item === null) return;
    this.#item = null;
    this.#panel.hidden = true;
    this.#map.open(null, []);
    this.#opener?.focus?.({ preventScroll: true });
  }

  /** Updates the list for the current metric. */
  async refresh() {
    const id = this.#item;
    if (id === null) return;
    const response = await this.#api.get(`${this.#path}/neighbors`, { item: id, k: N_NEIGHBORS });
    const rows = await Promise.all(response.neighbors.map((neighbor) => this.#row(neighbor)));
    const head = await itemSummary(response.item, this.#api);
    if (id !== this.#item) return;
    const focused = [...this.#panel.querySelectorAll("button")].indexOf(document.activeElement);
    const close = element("button", { type: "button", class: "quiet icon", "aria-label": say("neighbors.close") }, "×");
    close.addEventListener("click", () => this.close());
    this.#panel.replaceChildren(
      element(
        "div",
        { class: "neighbors-head" },
        element("h3", { id: "neighbors-title" }, say("neighbors.title")),
        close,
      ),
      element("div", { class: "summary selected" }, head),
      element("ol", { class: "neighbor-list" }, rows),
      element("p", { class: "hint" }, thresholdText(response.threshold)),
    );
    this.#panel.hidden = false;
    if (focused >= 0) this.#panel.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
    this.#map.open(
      response.item.position,
      response.neighbors.map(({ item, similar }) => ({ position: item.position, similar })),
    );
  }

  async #row({ item, distance, similar }) {
    const button = element(
      "button",
      { type: "button", class: "neighbor", title: say("neighbors.of", { item: nameOf(item) }) },
      element("span", { class: "summary" }, await itemSummary(item, this.#api)),
      element(
        "span",
        { class: `neighbor-distance ${similar ? "is-same" : "is-different"}` },
        formatNumber(distance),
        element("span", { class: "verdict" }, say(similar ? "answered.same" : "answered.different")),
      ),
    );
    button.addEventListener("click", () => this.open(item.id));
    button.addEventListener("pointerenter", () => (this.#map.pointed = item.position));
    button.addEventListener("pointerleave", () => (this.#map.pointed = null));
    return element("li", {}, button);
  }
}
