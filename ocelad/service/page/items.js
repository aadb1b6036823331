// Items by their position, fetched in blocks when somebody looks at one; and how one is told in a few words.

import { element, short } from "./dom.js";
import { pictureElement } from "./pair.js";

const BLOCK = 50;

export class Items {
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

  /** After items were added the last block has more of them. */
  forget() {
    this.#blocks.clear();
  }
}

const told = (value) => (typeof value === "number" ? short(value) : String(value));

/** A picture or the beginning of a text, the id, and the other columns. */
export async function itemSummary(item, api) {
  const fields = Object.entries(item.fields).filter(([, value]) => value !== null);
  const words = element(
    "div",
    { class: "summary-words" },
    element("strong", { class: "item-id" }, item.id),
    item.text ? element("span", { class: "summary-text" }, item.text) : [],
    fields.length
      ? element(
          "span",
          { class: "summary-fields" },
          fields
            .slice(0, 4)
            .map(([name, value]) => `${name}: ${told(value)}`)
            .join(" · "),
        )
      : [],
  );
  return item.picture ? [await pictureElement(item, api), words] : [words];
}
