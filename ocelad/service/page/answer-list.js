// The table of a project's answers: filters, pages, changes, and files of them.

import { ANSWERS, answerRow } from "./answer-row.js";
import { askFirst } from "./dialogs.js";
import { byId, element } from "./dom.js";
import { download } from "./downloads.js";
import { announce, sentence, showError } from "./messages.js";
import { patiently } from "./patience.js";
import { addressOf } from "./shell.js";
import { say } from "./words.js";

const SOURCES = ["active", "random", "link", "check", "settle", "given", "repeat", "review", "import"];
/** The files of all answers: formats, and the ends of their names. */
const FILES = { csv: "csv", jsonl: "jsonl", parquet: "parquet", dedupe: "dedupe.json", splink: "splink.csv", zingg: "zingg.csv" };
const FILTERS = ["search", "person", "item", "answer", "source", "undone"];
// Milliseconds after the last key until the list is searched.
const TYPING_PAUSE = 400;
const MAX_RELOADED = 200;

export class AnswerList {
  #api;
  #answers;
  #project;
  #listed = [];
  #next = null;
  #latest = 0;

  /** answers: AnswersApi. */
  constructor(api, answers, project) {
    [this.#api, this.#answers, this.#project] = [api, answers, project];
    this.#fillSelects();
    this.#readAddress();
    const form = byId("filters");
    let typing = 0;
    const search = () => this.load().catch(showError);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      search();
    });
    form.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(search, TYPING_PAUSE);
    });
    form.addEventListener("reset", () => setTimeout(search));
    byId("more-answers").addEventListener("click", () => this.#fetch(this.#next).catch(showError));
    this.#setUpFiles();
  }

  #fillSelects() {
    const fill = (id, any, options) =>
      byId(id).append(
        element("option", { value: "" }, any),
        ...options.map(([value, label]) => element("option", { value }, label)),
      );
    fill("filter-answer", say("answers.any"), ANSWERS.map((answer) => [answer, say(`answered.${answer}`)]));
    fill("filter-source", say("answers.any"), SOURCES.map((source) => [source, say(`source.${source}`)]));
    fill("filter-undone", say("answers.with-undone"), [
      ["false", say("answers.without-undone")],
      ["true", say("answers.only-undone")],
    ]);
    byId("export-format").append(...Object.keys(FILES).map((format) => element("option", { value: format }, say(`export.${format}`))));
  }

  #setUpFiles() {
    const save = (path, name) => download(this.#api, path, name).catch(showError);
    const { id } = this.#project;
    byId("export-shown").addEventListener("click", () => save(this.#answers.csvPath(this.#filters()), `${id}-answers.csv`));
    byId("export-all").addEventListener("click", () => {
      const format = byId("export-format").value;
      save(this.#answers.exportPath(format), `${id}-comparisons.${FILES[format]}`);
    });
    // Names are suggestions: not everybody may see them.
    this.#answers.people().then(
      (names) => byId("people").append(...names.map((name) => element("option", { value: name }))),
      () => {},
    );
  }

  #filters() {
    return Object.fromEntries(FILTERS.map((name) => [name, byId(`filter-${name}`).value.trim()]));
  }

  #readAddress() {
    const address = new URLSearchParams(location.search);
    for (const name of FILTERS) if (address.has(name)) byId(`filter-${name}`).value = address.get(name);
  }

  /** Keeps the filters in the address, so that a list can be shared and reloaded. */
  #writeAddress(filters) {
    const used = Object.entries(filters).filter(([, value]) => value);
    history.replaceState(null, "", `${addressOf("answers", this.#project.id)}${used.length ? `&${new URLSearchParams(used)}` : ""}`);
  }

  /** Shows the first page of the answers that pass the filters. */
  async load() {
    this.#writeAddress(this.#filters());
    await this.#fetch(null);
  }

  async #fetch(after, limit) {
    const turn = ++this.#latest;
    byId("answer-table").setAttribute("aria-busy", "true");
    byId("answers-refused").textContent = "";
    try {
      const page = await patiently(() => this.#answers.list(this.#filters(), after, limit));
      if (turn !== this.#latest) return; // another search began meanwhile
      this.#listed = after === null ? page.answers : [...this.#listed, ...page.answers];
      this.#next = page.next;
      this.#show(page);
    } catch (error) {
      if (turn !== this.#latest) return;
      if (!error.where?.startsWith("query")) throw error;
      this.#listed = [];
      this.#next = null;
      this.#show({ n_answers: 0, n_items_searched: null });
      byId("answers-refused").textContent = sentence(error.message);
    } finally {
      if (turn === this.#latest) byId("answer-table").removeAttribute("aria-busy");
    }
  }

  #show({ n_answers: n, n_items_searched: searched }) {
    const on = {
      change: (given, answer) => this.#act(this.#answers.change(given.seq, answer), say("answers.changed", { answer: say(`answered.${answer}`) })),
      undo: (given) => this.#undo(given),
      item: (item) => this.#filterBy(item),
    };
    byId("answer-rows").replaceChildren(...this.#listed.map((given) => answerRow(given, this.#api, on)));
    byId("answer-table").hidden = this.#listed.length === 0;
    byId("more-answers").hidden = this.#next === null;
    const cut = searched !== null && searched < this.#project.n_items ? ` ${say("answers.search-cut", { n: searched })}` : "";
    byId("answers-count").textContent = (n === null ? say("answers.many") : say("answers", { n })) + cut;
    this.#showBlank();
  }

  /** Says what to do if there are no answers. */
  #showBlank() {
    const filtered = Object.values(this.#filters()).some(Boolean);
    byId("no-answers").hidden = this.#listed.length > 0;
    const link = element("a", { href: addressOf("index", this.#project.id) }, say("answers.none-link"));
    byId("no-answers").replaceChildren(
      element("p", {}, say(filtered ? "answers.none-found" : "answers.none")),
      filtered || this.#project.permission === "read" ? "" : link,
    );
  }

  #filterBy(item) {
    byId("filter-item").value = item.id;
    this.load().catch(showError);
    byId("filter-item").focus();
  }

  async #undo(given) {
    const together = given.bundle !== null;
    const wanted = !together || (await askFirst(say("answers.undo-bundle"), say("answers.undo-bundle-text"), say("answer.undo")));
    if (wanted) await this.#act(this.#answers.undo(given.seq), say("answers.was-undone"));
  }

  /** Waits for a change, and shows the list again, as long as it was. */
  async #act(change, words) {
    try {
      await change;
      announce(words);
    } catch (error) {
      showError(error);
    }
    await this.#fetch(null, Math.min(Math.max(this.#listed.length, 50), MAX_RELOADED)).catch(showError);
    byId("answers-title").focus();
  }
}
