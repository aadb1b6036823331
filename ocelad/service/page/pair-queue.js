// The current pair, the next one, which is fetched in advance, and the answered ones, which can be undone.

import { RequestError } from "./api.js";
import { pairElements } from "./pair-view.js";

const MAX_ANSWERED = 100;
const MAX_ATTEMPTS = 4;
const RETRY_PAUSE = 1500;
const LABELS = { same: "same", different: "different", skip: "skipped" };

const pairKey = (pair) => [pair.left.id, pair.right.id].sort().join("\n");

export class PairQueue {
  #api;
  #project;
  #path;
  #sendQueue;
  #page;
  #current = null;
  #next = null;
  #answered = [];
  #nAnswered = 0;
  #beginning = false;

  /** page: {show(shown), wait(), noPair(error), announce(sentence)}; shown is {pair, elements}. */
  constructor(api, project, path, sendQueue, page) {
    this.#api = api;
    this.#project = project;
    this.#path = path;
    this.#sendQueue = sendQueue;
    this.#page = page;
  }

  /** Shows a pair if none is shown. */
  async begin() {
    if (this.#current || this.#beginning) return;
    this.#beginning = true;
    this.#page.wait();
    try {
      const next = this.#next;
      this.#next = null;
      const ready = await next;
      const shown = ready && !this.#repeats(ready.pair) ? ready : await this.#fetchNext();
      if (!this.#current) this.#show(shown);
      else if (!this.#repeats(shown.pair)) this.#next = Promise.resolve(shown);
    } catch (error) {
      if (!this.#current) this.#page.noPair(error);
    }
    this.#beginning = false;
  }

  answer(answer) {
    if (!this.#current) return;
    const { pair } = this.#current;
    const { key, response } = this.#sendQueue.add(`${this.#path}/comparisons`, {
      left: pair.left.id,
      right: pair.right.id,
      answer,
      source: pair.source,
    });
    const answered = { ...this.#current, key, response, stored: false };
    response.then(() => (answered.stored = true));
    this.#answered.push(answered);
    if (this.#answered.length > MAX_ANSWERED) this.#answered.shift();
    this.#current = null;
    this.#nAnswered += 1;
    this.#page.announce(`Answer ${this.#nAnswered}: ${LABELS[answer]}. Next pair.`);
    this.begin();
  }

  /** Undoes the last answer of this person, and shows its pair again. */
  async undo() {
    const again = this.#answered.pop();
    const undone = this.#sendQueue.add(`${this.#path}/undo`, { seq: null }, again?.key).response;
    if (again) {
      this.#nAnswered -= 1;
      if (this.#current) this.#next = Promise.resolve(this.#current);
      this.#show(again);
      this.#page.announce("Undone. The pair is shown again.");
      return;
    }
    const response = await undone;
    if (response) {
      const { kind, left, right } = response.entry;
      this.#page.announce(`Undone: ${LABELS[kind]}, for ${left} and ${right}.`);
    }
    this.begin();
  }

  #show(shown) {
    this.#current = shown;
    this.#page.show(shown);
    // If this fails, it is repeated and reported when the pair is needed.
    this.#next ??= this.#fetch().catch(() => null);
  }

  /** Whether the pair is shown, was shown last, or has an answer that may not be stored yet. */
  #repeats(pair) {
    const unstored = this.#answered.filter(({ stored }) => !stored);
    return [this.#current, this.#answered.at(-1), ...unstored].some(
      (shown) => shown && pairKey(shown.pair) === pairKey(pair),
    );
  }

  /** Returns a promise of the pair to show: a recent one only if its answer is stored and no other is proposed. */
  async #fetchNext() {
    const other = await this.#fetch();
    if (other) return other;
    await this.#answered.at(-1)?.response;
    return this.#fetch({ allowRepeat: true });
  }

  /** Returns a promise of a pair that was not shown recently, with its elements; null if there seems to be none. */
  async #fetch({ allowRepeat = false } = {}) {
    for (let attempt = 1; ; attempt++) {
      try {
        const pair = await this.#api.get(`${this.#path}/next-pair`);
        if (!this.#repeats(pair) || (allowRepeat && attempt >= MAX_ATTEMPTS))
          return { pair, elements: await pairElements(pair, this.#project, this.#path, this.#api) };
        if (attempt >= MAX_ATTEMPTS) return null;
      } catch (error) {
        if (!(error instanceof RequestError && error.isTemporary)) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_PAUSE));
      }
    }
  }
}
