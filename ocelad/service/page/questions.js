// Which pair is asked, and what is answered: one pair on the page, one ahead, and the answered ones behind.

import { Refused } from "./api.js";
import { pairElements } from "./pair.js";

const MOST_BEHIND = 100;
const TRIES = 4;
const PAUSE = 1500;
const WORDS = { same: "same", different: "different", skip: "skipped" };

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
  #beginning = false;

  /** page: {show(shown), wait(), none(problem), tell(sentence)}; shown is {pair, elements}. */
  constructor(api, project, path, outbox, page) {
    this.#api = api;
    this.#project = project;
    this.#path = path;
    this.#outbox = outbox;
    this.#page = page;
  }

  /** Shows a pair where there is none. */
  async begin() {
    if (this.#now || this.#beginning) return;
    this.#beginning = true;
    this.#page.wait();
    try {
      const ahead = this.#ahead;
      this.#ahead = null;
      const ready = await ahead;
      const shown = ready && !this.#repeats(ready.pair) ? ready : await this.#next();
      if (!this.#now) this.#show(shown);
      else if (!this.#repeats(shown.pair)) this.#ahead = Promise.resolve(shown);
    } catch (problem) {
      if (!this.#now) this.#page.none(problem);
    }
    this.#beginning = false;
  }

  answer(answer) {
    if (!this.#now) return;
    const { pair } = this.#now;
    const { key, said } = this.#outbox.add(`${this.#path}/comparisons`, {
      left: pair.left.id,
      right: pair.right.id,
      answer,
      source: pair.source,
    });
    const answered = { ...this.#now, key, said, kept: false };
    said.then(() => (answered.kept = true));
    this.#behind.push(answered);
    if (this.#behind.length > MOST_BEHIND) this.#behind.shift();
    this.#now = null;
    this.#answered += 1;
    this.#page.tell(`Answer ${this.#answered}: ${WORDS[answer]}. Next pair.`);
    this.begin();
  }

  /** Takes back the last answer of this person, and asks the pair again. */
  async undo() {
    const again = this.#behind.pop();
    const undone = this.#outbox.add(`${this.#path}/undo`, { seq: null }, again?.key).said;
    if (again) {
      this.#answered -= 1;
      if (this.#now) this.#ahead = Promise.resolve(this.#now);
      this.#show(again);
      this.#page.tell("Taken back. The pair is asked again.");
      return;
    }
    const said = await undone;
    if (said) this.#page.tell(`Taken back: ${WORDS[said.entry.kind]}, of ${said.entry.left} and ${said.entry.right}.`);
    this.begin();
  }

  #show(shown) {
    this.#now = shown;
    this.#page.show(shown);
    // What fails here is tried again, and told, when the pair is needed.
    this.#ahead ??= this.#fetch().catch(() => null);
  }

  /** Whether it is shown, was shown last, or has an answer that the service may not have yet. */
  #repeats(pair) {
    const unkept = this.#behind.filter(({ kept }) => !kept);
    return [this.#now, this.#behind.at(-1), ...unkept].some(
      (shown) => shown && namesOf(shown.pair) === namesOf(pair),
    );
  }

  /** The pair to show now: one of the last again only where the service has its answer, and asks nothing else. */
  async #next() {
    const other = await this.#fetch();
    if (other) return other;
    await this.#behind.at(-1)?.said;
    return this.#fetch({ orTheLast: true });
  }

  /** Another pair than those that were shown last, ready to be shown; null where there seems to be none. */
  async #fetch({ orTheLast = false } = {}) {
    for (let attempt = 1; ; attempt++) {
      try {
        const pair = await this.#api.get(`${this.#path}/next-pair`);
        if (!this.#repeats(pair) || (orTheLast && attempt >= TRIES))
          return { pair, elements: await pairElements(pair, this.#project, this.#path, this.#api) };
        if (attempt >= TRIES) return null;
      } catch (problem) {
        if (!(problem instanceof Refused && problem.passing)) throw problem;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
  }
}
