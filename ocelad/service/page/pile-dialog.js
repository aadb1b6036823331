// The items of a pile, in a dialog; selected ones can be split off.

import { prepareDialog } from "./dialogs.js";
import { byId, element } from "./dom.js";
import { itemSummary } from "./items.js";
import { say } from "./words.js";

const PAGE = 60;

export const pileName = ({ id, name }) => name ?? say("piles.of", { item: id });

export class PileDialog {
  #api;
  #path;
  #mayAnswer;
  #actions;
  #group = null;
  #next = null;
  #selected = new Set();

  constructor(api, path, mayAnswer, actions) {
    [this.#api, this.#path, this.#mayAnswer, this.#actions] = [api, path, mayAnswer, actions];
    byId("split-pile").hidden = !mayAnswer;
    byId("split-pile").addEventListener("click", () => this.#split());
    byId("more-pile-items").addEventListener("click", () => this.#more().catch(actions.failed));
    prepareDialog(byId("pile-dialog")).addEventListener("close", () => (this.#group = null));
  }

  async open(group) {
    this.#group = group;
    this.#next = 0;
    this.#selected.clear();
    byId("pile-title").textContent = pileName(group);
    byId("pile-hint").textContent = this.#mayAnswer ? say("piles.split-hint") : say("items", { n: group.size });
    byId("pile-items").replaceChildren();
    this.#showSelection();
    byId("pile-dialog").showModal();
    await this.#more();
  }

  /** Shows the next page of items. */
  async #more() {
    const group = this.#group;
    const wanted = { item: group.id, after: this.#next || null, limit: PAGE };
    const page = await this.#api.get(`${this.#path}/groups/items`, wanted);
    const rows = await Promise.all(page.items.map((item) => this.#row(item)));
    if (group !== this.#group) return;
    byId("pile-items").append(...rows);
    this.#next = page.next;
    byId("more-pile-items").hidden = page.next === null;
  }

  async #row(item) {
    const summary = element("span", { class: "summary" }, await itemSummary(item, this.#api));
    if (!this.#mayAnswer) return element("li", {}, summary);
    const choice = element("input", { type: "checkbox", "data-item": item.id });
    choice.addEventListener("change", () => {
      if (choice.checked) this.#selected.add(item.id);
      else this.#selected.delete(item.id);
      this.#showSelection();
    });
    return element("li", {}, element("label", { class: "pile-item" }, choice, summary));
  }

  #showSelection() {
    const n = this.#selected.size;
    byId("split-pile").disabled = n === 0 || n >= (this.#group?.size ?? 0);
    byId("split-pile").textContent = n ? say("piles.split-n", { n }) : say("piles.split");
  }

  #split() {
    const items = [...this.#selected];
    byId("pile-dialog").close();
    this.#actions.edit("split", { items }, say("change.split"));
  }
}
