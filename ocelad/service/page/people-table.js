// The people who have answered, with their figures; and the weights of their answers.

import { byId, element } from "./dom.js";
import { field, openFormDialog } from "./form-dialog.js";
import { announce } from "./messages.js";
import { formatNumber, formatPercent, formatTime } from "./numbers.js";
import { clearRefusals, refuse, showRefusal } from "./refusals.js";
import { say } from "./words.js";

const COLUMNS = ["answers", "same", "skipped", "others", "settled", "checks", "seconds", "last", "accuracy", "weight"];

export class PeopleTable {
  #team;
  #project;
  #changed;
  #people = [];

  /** changed(): called after weights or answers have changed. */
  constructor(team, project, changed) {
    [this.#team, this.#project, this.#changed] = [team, project, changed];
    const form = byId("weights-form");
    form.hidden = project.permission !== "admin" || project.method === "rice";
    form.addEventListener("change", () => this.#showWeights());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#saveWeights();
    });
  }

  /** Shows what TeamApi.people has returned. */
  show(page) {
    this.#people = page.people;
    const mode = document.querySelector(`[name=weights][value=${page.weights}]`);
    if (mode) mode.checked = true;
    byId("people-hint").textContent = page.n_people
      ? say("people.totals", { people: say("people.n", { n: page.n_people }), answers: say("answers", { n: page.n_answers }) })
      : say("people.none");
    if (page.n_people > page.people.length) byId("people-hint").textContent += ` ${say("people.only-you")}`;
    byId("people-frame").hidden = !page.people.length;
    if (!page.people.length) byId("weights-form").hidden = true;
    byId("people-frame").replaceChildren(this.#table());
    this.#showWeights();
  }

  #table() {
    return element(
      "table",
      { class: "wide widest people" },
      element("caption", {}, say("people.caption")),
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "col" }, say("answers.person")),
          COLUMNS.map((name) => element("th", { scope: "col", title: say(`people.${name}-hint`) }, say(`people.${name}`))),
          element("th", { scope: "col" }, say("people.erase")),
        ),
      ),
      element("tbody", {}, this.#people.map((person) => this.#row(person))),
    );
  }

  #row(person) {
    const name = person.person || say("answers.nobody");
    const values = {
      answers: formatNumber(person.n_answers),
      same: person.n_answers ? formatPercent(person.n_same / person.n_answers) : "–",
      skipped: formatNumber(person.n_skipped),
      others: counted(person.with_others),
      settled: counted(person.with_settled),
      checks: counted(person.with_checks),
      seconds: person.median_seconds === null ? "–" : formatNumber(Math.round(person.median_seconds * 10) / 10),
      last: formatTime(person.last_at),
      accuracy: person.accuracy === null ? "–" : formatPercent(person.accuracy),
      weight: this.#weight(person, name),
    };
    return element(
      "tr",
      { "data-person": person.person },
      element("th", { scope: "row", dir: "auto" }, name, person.is_caller ? ` (${say("people.you")})` : ""),
      COLUMNS.map((column) => element("td", { "data-label": say(`people.${column}`) }, values[column])),
      element("td", {}, this.#mayErase(person) ? this.#eraseButton(person, name) : []),
    );
  }

  #mayErase({ is_caller: own }) {
    return this.#project.permission === "admin" || (own && this.#project.permission !== "read");
  }

  #eraseButton({ person }, name) {
    const button = element(
      "button",
      { type: "button", class: "quiet danger", "aria-label": say("people.erase-of", { name }) },
      say("people.erase-do"),
    );
    button.addEventListener("click", () => this.#erase(person));
    return button;
  }

  async #erase(person) {
    const typed = element("input", { dir: "auto", autocomplete: "off", spellcheck: "false" });
    const erased = await openFormDialog({
      title: say("erase.title", { person }),
      text: say("erase.text"),
      parts: [field({ id: "erase-name", label: say("erase.type", { person }), input: typed, refuses: "confirm person" })],
      action: say("people.erase-do"),
      style: "danger",
      ready(form, submit) {
        submit.disabled = true;
        typed.addEventListener("input", () => (submit.disabled = typed.value.trim() !== person));
      },
      send: () => this.#team.erase(person),
    });
    if (!erased) return;
    announce(say("erase.done", { n: erased.n_erased }));
    byId("people-title").focus();
    this.#changed();
  }

  // Weights.

  #weight({ person, weight }, name) {
    const shown = formatNumber(Math.round(weight * 100) / 100);
    const input = element("input", {
      type: "number",
      class: "weight",
      min: 0,
      max: 1,
      step: 0.05,
      value: Math.round(weight * 100) / 100,
      "data-weight-of": person,
      "aria-label": say("weights.of", { name }),
      hidden: true,
    });
    return element("span", {}, element("span", { class: "weight-text" }, shown), input);
  }

  /** Shows fields for weights that are set. */
  #showWeights() {
    const isSet = !byId("weights-form").hidden && mode() === "set";
    for (const input of document.querySelectorAll("[data-weight-of]")) input.hidden = !isSet;
    for (const text of document.querySelectorAll(".weight-text")) text.hidden = isSet;
  }

  async #saveWeights() {
    const form = byId("weights-form");
    clearRefusals(form);
    const inputs = [...document.querySelectorAll("[data-weight-of]")];
    const wrong = mode() === "set" && inputs.find((input) => input.value === "" || !input.checkValidity());
    if (wrong) {
      refuse(form.querySelector("[data-refuses]"), say("weights.refused"));
      wrong.focus();
      return;
    }
    try {
      await this.#storeWeights(Object.fromEntries(inputs.map((input) => [input.dataset.weightOf, Number(input.value)])));
      announce(say("weights.saved"));
      this.#changed();
    } catch (error) {
      showRefusal(form, error);
    }
  }

  #storeWeights(people) {
    if (mode() === "learned") return this.#team.learnWeights();
    return this.#team.change({ weights: mode() === "set" ? { mode: "set", people } : { mode: "equal" } });
  }
}

const mode = () => document.querySelector("[name=weights]:checked")?.value ?? "equal";

const counted = ({ n, n_equal: equal }) => (n ? say("figures.of", { part: equal, all: n }) : "–");
