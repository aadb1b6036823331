// The current pair, the next one, which is fetched in advance, and the answered ones, which can be undone.

import { RequestError } from "./api.js";
import { pairElements } from "./pair-view.js";

const MAX_ANSWERED = 100;
const MAX_ATTEMPTS = 4;
const RETRY_PAUSE = 1500;
const LABELS = { same: "same", different: "different", skip: "skipped" };

/** Describes what an undo has undone, from its response. */
function describeUndone({ entry, n_undone: n }) {
  if (entry.kind === "name") return `Undone: the name of the pile of ${entry.left}.`;
  if (n > 1) return `Undone: ${n} answers that were given together.`;
  return `Undone: ${LABELS[entry.kind]}, for ${entry.left} and ${entry.right}.`;
}

const pairKey = (pair) => [pair.left.id, pair.right.id].sort().join("\n");

export class PairQueue {
  #api;
  #project;
  #path;
  #sendQueue;
  #page;
  #current = null;
  #next = null;
  #answered = []; // with a pair, or a change of the piles without one
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
    this.#remember({ ...this.#current, key, response, stored: false });
    this.#current = null;
    this.#nAnswered += 1;
    this.#page.announce(`Answer ${this.#nAnswered}: ${LABELS[answer]}. Next pair.`);
    this.begin();
  }

  /** Sends a change of the piles, which can be undone like an answer; returns a promise of the response. */
  edit(part, body, label) {
    const { key, response } = this.#sendQueue.add(`${this.#path}/groups/${part}`, body);
    const edit = { label, key, response, stored: false };
    this.#remember(edit);
    response.then((acknowledgement) => {
      if (acknowledgement === null) this.#answered = this.#answered.filter((each) => each !== edit); // it was rejected
    });
    return response;
  }

  /** Asks about a given pair now; the current one comes next. */
  async ask(left, right) {
    const pair = await this.#api.get(`${this.#path}/pair`, { left, right });
    const elements = await pairElements(pair, this.#project, this.#path, this.#api);
    if (this.#current && pairKey(this.#current.pair) !== pairKey(pair)) this.#next = Promise.resolve(this.#current);
    this.#show({ pair, elements });
  }

  #remember(done) {
    done.response.then(() => (done.stored = true));
    this.#answered.push(done);
    if (this.#answered.length > MAX_ANSWERED) this.#answered.shift();
  }

  /** Undoes the last answer of this person, and shows its pair again; or the last change of the piles. */
  async undo() {
    const again = this.#answered.pop();
    const undone = this.#sendQueue.add(`${this.#path}/undo`, { seq: null }, again?.key).response;
    if (again && !again.pair) {
      this.#page.announce(`Undone: ${again.label}.`);
      return;
    }
    if (again) {
      this.#nAnswered -= 1;
      if (this.#current) this.#next = Promise.resolve(this.#current);
      this.#show(again);
      this.#page.announce("Undone. The pair is shown again.");
      return;
    }
    const response = await undone;
    if (response) this.#page.announce(describeUndone(response));
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
    const answered = this.#answered.filter((done) => done.pair);
    return [this.#current, answered.at(-1), ...answered.filter(({ stored }) => !stored)].some(
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
