// A cache of items by position, fetched in blocks, and short summaries of items.

import { element } from "./dom.js";
import { formatNumber } from "./numbers.js";
import { nameOf, pictureElement } from "./pair-view.js";

const BLOCK = 50;

export class ItemCache {
  #api;
  #path;
  #blocks = new Map();

  constructor(api, path) {
    this.#api = api;
    this.#path = path;
  }

  async at(position) {
    const block = Math.floor(position / BLOCK);
    if (!this.#blocks.has(block)) {
      const after = block ? block * BLOCK - 1 : null;
      const page = this.#api.get(`${this.#path}/items`, { after, limit: BLOCK });
      page.catch(() => this.#blocks.delete(block));
      this.#blocks.set(block, page);
    }
    const { items } = await this.#blocks.get(block);
    return items.find((item) => item.position === position);
  }

  /** Empties the cache after items were added. */
  clear() {
    this.#blocks.clear();
  }
}

const format = (value) => (typeof value === "number" ? formatNumber(value) : String(value));

/** Returns a promise of the elements of a summary: a picture or the start of the text, the id, and other columns. */
export async function itemSummary(item, api) {
  const fields = Object.entries(item.fields).filter(([, value]) => value !== null);
  const body = element(
    "div",
    { class: "summary-body" },
    element("strong", { class: "item-id", dir: "auto" }, nameOf(item)),
    item.text ? element("span", { class: "summary-text", dir: "auto" }, item.text) : [],
    fields.length
      ? element(
          "span",
          { class: "summary-fields" },
          fields
            .slice(0, 4)
            .map(([name, value]) => `${name}: ${format(value)}`)
            .join(" · "),
        )
      : [],
  );
  return item.picture ? [await pictureElement(item, api), body] : [body];
}
