// The nearest neighbours of one item, now.

import { element, short } from "./dom.js";
import { itemSummary } from "./items.js";

const HOW_MANY = 10;

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

  /** As the metric is now. */
  async refresh() {
    const id = this.#item;
    if (id === null) return;
    const told = await this.#api.get(`${this.#path}/neighbors`, { item: id, k: HOW_MANY });
    const rows = await Promise.all(told.neighbors.map((neighbor) => this.#row(neighbor)));
    const head = await itemSummary(told.item, this.#api);
    if (id !== this.#item) return;
    const focused = [...this.#panel.querySelectorAll("button")].indexOf(document.activeElement);
    const close = element("button", { type: "button", class: "quiet icon", "aria-label": "Close this list" }, "×");
    close.addEventListener("click", () => this.close());
    this.#panel.replaceChildren(
      element("div", { class: "neighbors-head" }, element("h3", { id: "neighbors-title" }, "Nearest now"), close),
      element("div", { class: "summary of" }, head),
      element("ol", { class: "neighbor-list" }, rows),
      element("p", { class: "hint" }, `The same up to a distance of ${short(told.threshold)}.`),
    );
    this.#panel.hidden = false;
    if (focused >= 0) this.#panel.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
    this.#map.open(
      told.item.position,
      told.neighbors.map(({ item, similar }) => ({ position: item.position, similar })),
    );
  }

  async #row({ item, distance, similar }) {
    const button = element(
      "button",
      { type: "button", class: "neighbor", title: `Neighbours of ${item.id}` },
      element("span", { class: "summary" }, await itemSummary(item, this.#api)),
      element(
        "span",
        { class: `far ${similar ? "is-same" : "is-different"}` },
        short(distance),
        element("span", { class: "verdict" }, similar ? "same" : "different"),
      ),
    );
    button.addEventListener("click", () => this.open(item.id));
    button.addEventListener("pointerenter", () => (this.#map.pointed = item.position));
    button.addEventListener("pointerleave", () => (this.#map.pointed = null));
    return element("li", {}, button);
  }
}
