// The piles: groups of items that the answers imply to be the same. They can be named, merged, split and exported.

import { byId, element } from "./dom.js";
import { download } from "./downloads.js";
import { itemSummary } from "./items.js";
import { nameOf, pictureElement } from "./pair-view.js";
import { PileDialog, pileName } from "./pile-dialog.js";
import { say } from "./words.js";

// The number of piles at first, and per "Show more"; the service lists at most MAX_PAGE at a time.
const FIRST_PILES = 12;
const MORE_PILES = 24;
const MAX_PAGE = 200;
const N_PICTURES = 6;
const N_TEXTS = 2;
const MAX_CONTRADICTIONS = 5;
const MAX_NAME = 100;

export class PilesPanel {
  #api;
  #path;
  #mayAnswer;
  #actions;
  #dialog;
  #nShown = FIRST_PILES;
  #cards = new Map(); // by id: {key, card}
  #selected = new Set();
  #dragged = null;

  /** actions: {edit(part, body, label), ask(left, right), failed(error)}; edit sends a change that can be undone, and
   *  returns a promise of the response, or of null if it was rejected. */
  constructor(api, project, path, mayAnswer, actions) {
    [this.#api, this.#path, this.#mayAnswer, this.#actions] = [api, path, mayAnswer, actions];
    this.#dialog = new PileDialog(api, path, mayAnswer, actions);
    byId("piles-panel").hidden = false;
    byId("merge-piles").hidden = !mayAnswer;
    byId("merge-piles").addEventListener("click", () => this.#merge(...this.#selected));
    byId("more-piles").addEventListener("click", () => {
      this.#nShown += MORE_PILES;
      this.refresh().catch(actions.failed);
    });
    byId("piles").addEventListener("focusout", ({ target }) => {
      // Updates wait while a name is being edited.
      if (target.matches(".pile-name")) setTimeout(() => this.refresh().catch(actions.failed));
    });
    this.#setUpExport(project);
  }

  /** Updates the panel, unless a name is being edited; returns a promise of the last entry that it shows. */
  async refresh() {
    const { groups, next, ...counts } = await this.#fetch();
    const contradictions = counts.n_contradictions
      ? (await this.#api.get(`${this.#path}/contradictions`, { limit: MAX_CONTRADICTIONS })).contradictions
      : [];
    const cards = await Promise.all(groups.map((group) => this.#card(group)));
    const pairs = await Promise.all(contradictions.map((pair) => this.#contradiction(pair)));
    if (document.activeElement?.matches(".pile-name")) return counts.seq;
    this.#cards = new Map(cards.map((each) => [each.card.dataset.group, each]));
    replaceKeepingFocus(byId("piles"), cards.map(({ card }) => card));
    replaceKeepingFocus(byId("contradiction-list"), pairs);
    byId("contradictions").hidden = !pairs.length;
    byId("more-piles").hidden = next === null;
    byId("implied").textContent = describe(counts, counts.n_contradictions - pairs.length);
    for (const id of this.#selected) if (!this.#cards.has(id)) this.#selected.delete(id);
    this.#showSelection();
    return counts.seq;
  }

  async #fetch() {
    let page = null;
    const groups = [];
    do {
      const limit = Math.min(this.#nShown - groups.length, MAX_PAGE);
      page = await this.#api.get(`${this.#path}/groups`, { after: groups.length || null, limit });
      groups.push(...page.groups);
    } while (page.next !== null && groups.length < this.#nShown);
    return { ...page, groups };
  }

  /** Returns a promise of the card of a group; that of the last update, if nothing has changed. */
  async #card(group) {
    const key = JSON.stringify([group.name, group.size, group.items.map(({ id }) => id)]);
    const before = this.#cards.get(group.id);
    if (before?.key === key) return before;
    const title = pileName(group);
    const open = element(
      "button",
      {
        type: "button",
        class: group.items[0].picture ? "pile-open pictures" : "pile-open",
        "aria-label": say("piles.open", { title, items: say("items", { n: group.size }) }),
      },
      await this.#examples(group),
    );
    open.addEventListener("click", () => this.#dialog.open(group).catch(this.#actions.failed));
    const size = element("span", { class: "pile-size" }, say("items", { n: group.size }));
    const head = element("div", { class: "pile-head" }, this.#choice(group, title), this.#name(group), size);
    const card = element("li", { class: "pile", "data-group": group.id, draggable: this.#mayAnswer && "true" });
    card.append(head, open);
    if (this.#mayAnswer) this.#setUpDragging(card);
    return { key, card };
  }

  async #examples({ items, size }) {
    if (items[0].picture) {
      const pictures = await Promise.all(items.slice(0, N_PICTURES).map((item) => pictureElement(item, this.#api)));
      for (const picture of pictures) picture.alt = "";
      return pictures;
    }
    const rest = size - Math.min(items.length, N_TEXTS);
    return items
      .slice(0, N_TEXTS)
      .map((item) => element("span", { class: "pile-text" }, item.text ?? nameOf(item)))
      .concat(rest ? [element("span", { class: "hint" }, say("piles.others", { n: rest }))] : []);
  }

  #choice({ id }, title) {
    if (!this.#mayAnswer) return [];
    const choice = element("input", { type: "checkbox", class: "pile-choice", "aria-label": say("piles.select", { title }) });
    choice.addEventListener("change", () => {
      if (choice.checked) this.#selected.add(id);
      else this.#selected.delete(id);
      this.#showSelection();
    });
    return choice;
  }

  #name({ id, name }) {
    const input = element("input", {
      class: "pile-name",
      value: name ?? "",
      placeholder: this.#mayAnswer ? say("piles.name-this") : pileName({ id }),
      title: pileName({ id, name }),
      "aria-label": say("piles.name-of", { item: id }),
      maxlength: MAX_NAME,
      autocomplete: "off",
      readonly: !this.#mayAnswer,
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") input.value = name ?? "";
      if (event.key === "Enter" || event.key === "Escape") input.blur();
    });
    input.addEventListener("change", async () => {
      const wanted = input.value.trim();
      const changed = wanted && wanted !== name;
      const saved = changed && (await this.#actions.edit("name", { item: id, name: wanted }, say("change.name")));
      if (!saved) input.value = name ?? "";
    });
    return input;
  }

  #setUpDragging(card) {
    card.addEventListener("dragstart", (event) => {
      if (event.target !== card) return event.preventDefault();
      this.#dragged = card.dataset.group;
      event.dataTransfer.effectAllowed = "move";
    });
    card.addEventListener("dragend", () => (this.#dragged = null));
    const accept = (event) => {
      if (this.#dragged === null || this.#dragged === card.dataset.group) return;
      event.preventDefault();
      card.classList.add("target");
    };
    card.addEventListener("dragenter", accept);
    card.addEventListener("dragover", accept);
    card.addEventListener("dragleave", () => card.classList.remove("target"));
    card.addEventListener("drop", (event) => {
      event.preventDefault();
      card.classList.remove("target");
      if (this.#dragged !== null) this.#merge(card.dataset.group, this.#dragged);
    });
  }

  #merge(left, right) {
    this.#selected.clear();
    this.#showSelection();
    this.#actions.edit("merge", { left, right }, say("change.merge"));
  }

  #showSelection() {
    for (const [id, { card }] of this.#cards) {
      const selected = this.#selected.has(id);
      card.classList.toggle("selected", selected);
      const choice = card.querySelector(".pile-choice");
      if (choice) choice.checked = selected;
    }
    byId("merge-piles").disabled = this.#selected.size !== 2;
  }

  async #contradiction({ left, right, votes }) {
    const [one, other] = await Promise.all([left, right].map((item) => itemSummary(item, this.#api)));
    const verdict = say(votes < 0 ? "piles.but-one" : "piles.but-two");
    const shown = [
      element("span", { class: "summary" }, one),
      element("span", { class: "summary" }, other),
      element("span", { class: `verdict ${votes < 0 ? "is-different" : "is-same"}` }, verdict),
    ];
    const button = { type: "button", class: "ask-pair contradiction" };
    const row = this.#mayAnswer ? element("button", button, shown) : element("div", { class: "contradiction" }, shown);
    if (this.#mayAnswer) row.addEventListener("click", () => this.#actions.ask(left.id, right.id));
    return element("li", { "data-pair": `${left.id}\n${right.id}` }, row);
  }

  /** The file is fetched, not linked, because the request needs headers. */
  #setUpExport(project) {
    const link = byId("export-piles");
    link.href = `${this.#path}/export?content=groups&format=csv`;
    link.download = `${project.id}-groups.csv`;
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      try {
        await download(this.#api, link.href, link.download);
      } catch (error) {
        this.#actions.failed(error);
      }
    });
  }
}

/** Returns the sentence about what the answers imply. */
function describe({ n_answers: n, n_implied: implied, n_groups: piles }, nMore) {
  if (!n) return say("piles.empty");
  const implies = say("piles.imply", {
    n,
    comparisons: say("comparisons", { n: implied }),
    piles: say("piles", { n: piles }),
  });
  return nMore > 0 ? `${implies} ${say("piles.more-contradictions", { n: nMore })}` : implies;
}

/** Replaces the children of a list; the focus stays on the element at the same place of the same child. */
function replaceKeepingFocus(list, children) {
  const keyOf = (child) => child.dataset.group ?? child.dataset.pair;
  const same = list.children.length === children.length && children.every((child, i) => child === list.children[i]);
  if (same) return;
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const card = focused?.closest("li");
  list.replaceChildren(...children);
  if (!card) return;
  const successor = children.find((child) => keyOf(child) === keyOf(card));
  successor?.querySelector(`.${focused.className.split(" ")[0]}`)?.focus({ preventScroll: true });
}
