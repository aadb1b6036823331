// Which pair is asked, and what is answered: one pair on the page, one ahead, and the answered ones behind.

import { pairElements } from "./pair.js";

const MOST_BEHIND = 100;
const TRIES = 4;
const PAST_TENSE = { same: "same", different: "different", skip: "skipped" };

const namesOf = (pair) => [pair.left.id, pair.right.id].sort().join("\n");

export class Questions {
  #api;
  #project;
  #path;
  #outbox;
  #page;
  #now = null;
  #ahead = null;
  #behind = [];
  #answered = 0;

  /** page: {show(shown), wait(), tell(sentence), problem(error)}; shown is {pair, elements}. */
  constructor(api, project, path, outbox, page) {
    this.#api = api;
    this.#project = project;
    this.#path = path;
    this.#outbox = outbox;
    this.#page = page;
  }

  /** Shows a pair where there is none. */
  async begin() {
    if (this.#now) return;
    this.#page.wait();
    const shown = await this.#takeAhead();
    if (shown && !this.#now) this.#show(shown);
  }

  answer(answer) {
    if (!this.#now) return;
    const { pair } = this.#now;
    this.#outbox.add(`${this.#path}/comparisons`, { left: pair.left.id, right: pair.right.id, answer, asked: pair.asked });
    this.#behind.push(this.#now);
    if (this.#behind.length > MOST_BEHIND) this.#behind.shift();
    this.#now = null;
    this.#answered += 1;
    this.#page.tell(`Answer ${this.#answered}: ${PAST_TENSE[answer]}. Next pair.`);
    this.begin();
  }

  /** Takes back the last answer of this person, and asks the pair again. */
  async undo() {
    const again = this.#behind.pop();
    const undone = this.#outbox.add(`${this.#path}/undo`, { seq: null });
    if (again) {
      this.#answered -= 1;
      if (this.#now) this.#ahead = Promise.resolve(this.#now);
      this.#show(again);
      this.#page.tell("Taken back. The pair is asked again.");
      return;
    }
    const said = await undone;
    if (said) this.#page.tell(`Taken back: the answer "${PAST_TENSE[said.entry.kind]}" about ${said.entry.left} and ${said.entry.right}.`);
  }

  #show(shown) {
    this.#now = shown;
    this.#page.show(shown);
    this.#ahead ??= this.#fetch();
  }

  async #takeAhead() {
    const ahead = this.#ahead ?? this.#fetch();
    this.#ahead = null;
    return ahead;
  }

  /** Another pair than those that were shown last, ready to be shown; null where there is none for now. */
  async #fetch() {
    try {
      for (let attempt = 1; ; attempt++) {
        const pair = await this.#api.get(`${this.#path}/next-pair`);
        const known = [this.#now, this.#behind.at(-1)].some((shown) => shown && namesOf(shown.pair) === namesOf(pair));
        if (!known || attempt === TRIES) return { pair, elements: await pairElements(pair, this.#project, this.#api) };
      }
    } catch (problem) {
      this.#page.problem(problem);
      return null;
    }
  }
}
