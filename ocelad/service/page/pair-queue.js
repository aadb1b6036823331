// The current pair, the next ones, which are fetched in advance, and the answered ones, which can be undone.

import { RequestError } from "./api.js";
import { pairElements } from "./pair-view.js";
import { say } from "./words.js";

const MAX_ANSWERED = 100;
const MAX_ATTEMPTS = 4;
const RETRY_PAUSE = 1500;
// The number of pairs in advance, and the largest number while keys wait for pairs. Earlier choices know less.
const RESERVE = 2;
const MAX_RESERVE = 6;
// A hidden page paints nothing; then a pair counts as shown after this many milliseconds.
const MAX_PAINT = 100;
const UNDO = "undo";

/** Describes what an undo has undone, from its response. */
function describeUndone({ entry, n_undone: n }) {
  if (entry.kind === "name") return say("undone.name", { item: entry.left });
  if (n > 1) return say("undone.bundle", { n });
  return say("undone.answer", { answer: say(`answered.${entry.kind}`), left: entry.left, right: entry.right });
}

const pairKey = (pair) => [pair.left.id, pair.right.id].sort().join("\n");

/** Returns a promise that is resolved when the page has been painted. */
function painted() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, MAX_PAINT);
  });
}

export class PairQueue {
  #api;
  #project;
  #path;
  #sendQueue;
  #page;
  #current = null;
  #ready = []; // {promise, pair}: fetched in advance; the pair is null until it has been chosen
  #typed = []; // answers and undos that wait until a pair is shown
  #working = false;
  #answered = []; // with a pair, or a change of the piles without one
  #nAnswered = 0;
  #beginning = null;

  /** page: {show(shown), wait(), noPair(error), announce(sentence), unused(n)}; shown is {pair, elements}; unused is
   *  called if n answers were typed for which no pair came. */
  constructor(api, project, path, sendQueue, page) {
    this.#api = api;
    this.#project = project;
    this.#path = path;
    this.#sendQueue = sendQueue;
    this.#page = page;
  }

  /** Shows a pair if none is shown. */
  begin() {
    if (this.#current) return Promise.resolve();
    this.#beginning ??= this.#begin().finally(() => (this.#beginning = null));
    return this.#beginning;
  }

  async #begin() {
    this.#page.wait();
    try {
      const shown = (await this.#takeReady()) ?? (await this.#fetchNext());
      if (!this.#current) this.#show(shown);
      else if (!this.#repeats(shown.pair)) this.#putBack(shown);
    } catch (error) {
      if (!this.#current) this.#page.noPair(error);
    }
  }

  async #takeReady() {
    while (this.#ready.length) {
      const shown = await this.#ready.shift().promise;
      if (shown && !this.#repeats(shown.pair)) return shown;
    }
    return null;
  }

  #putBack(shown) {
    this.#ready.unshift({ promise: Promise.resolve(shown), pair: shown.pair });
  }

  /** Answers the current pair; the next one after it has been shown, if none is shown now. */
  answer(answer) {
    this.#type(answer);
  }

  /** Undoes the last answer of this person, and shows its pair again; or the last change of the piles. */
  undo() {
    this.#type(UNDO);
  }

  #type(action) {
    this.#typed.push(action);
    if (!this.#working) this.#work();
    else this.#fill();
  }

  /** Takes what was typed in order. An answer waits until its pair has been painted: nobody answers what they could not
   *  see. */
  async #work() {
    this.#working = true;
    while (this.#typed.length) {
      if (this.#typed[0] === UNDO) {
        this.#typed.shift();
        this.#undo();
        continue;
      }
      await this.begin();
      if (!this.#current) {
        const unused = this.#typed.filter((action) => action !== UNDO).length;
        this.#typed = [];
        this.#page.unused(unused);
        break;
      }
      if (!this.#current.painted) {
        this.#page.wait();
        await this.#current.painting;
        continue; // the pair may be another one now
      }
      this.#answer(this.#typed.shift());
    }
    this.#working = false;
  }

  #answer(answer) {
    const { pair, elements } = this.#current;
    const { key, response } = this.#sendQueue.add(`${this.#path}/comparisons`, {
      left: pair.left.id,
      right: pair.right.id,
      answer,
      ticket: pair.ticket,
    });
    this.#remember({ pair, elements, key, response, stored: false });
    this.#current = null;
    this.#nAnswered += 1;
    this.#page.announce(say("answered", { number: this.#nAnswered, answer: say(`answered.${answer}`) }));
    this.begin();
  }

  /** Sends a change of the piles, which can be undone like an answer; returns a promise of the response. */
  edit(part, body, label) {
    const { key, response } = this.#sendQueue.add(`${this.#path}/groups/${part}`, body);
    const edit = { label, key, response, stored: false };
    this.#remember(edit);
    response.then((acknowledgement) => {
      if (acknowledgement === null) this.#answered = this.#answered.filter((each) => each !== edit); // it was refused
    });
    return response;
  }

  /** Asks about a given pair now; the current one comes next. */
  async ask(left, right) {
    const pair = await this.#api.get(`${this.#path}/pair`, { left, right });
    const elements = await pairElements(pair, this.#project, this.#path, this.#api);
    if (this.#current && pairKey(this.#current.pair) !== pairKey(pair)) this.#putBack(this.#current);
    this.#show({ pair, elements });
  }

  #remember(done) {
    done.response.then(() => (done.stored = true));
    this.#answered.push(done);
    if (this.#answered.length > MAX_ANSWERED) this.#answered.shift();
  }

  async #undo() {
    const again = this.#answered.pop();
    const undone = this.#sendQueue.add(`${this.#path}/undo`, { seq: null }, again?.key).response;
    if (again && !again.pair) {
      this.#page.announce(say("undone.edit", { change: again.label }));
      return;
    }
    if (again) {
      this.#nAnswered -= 1;
      if (this.#current) this.#putBack(this.#current);
      this.#show(again);
      this.#page.announce(say("undone.shown"));
      return;
    }
    const response = await undone;
    if (response) this.#page.announce(describeUndone(response));
    this.begin();
  }

  #show({ pair, elements }) {
    const shown = { pair, elements, painted: false };
    shown.painting = painted().then(() => (shown.painted = true));
    this.#current = shown;
    this.#ready = this.#ready.filter((entry) => !entry.pair || pairKey(entry.pair) !== pairKey(pair));
    this.#page.show(shown);
    this.#fill();
  }

  /** Fetches pairs in advance: more if answers are waiting for them. */
  #fill() {
    const wanted = Math.min(RESERVE + this.#typed.length, MAX_RESERVE);
    while (this.#ready.length < wanted) {
      const entry = { pair: null };
      // If this fails, it is repeated and reported when the pair is needed.
      entry.promise = this.#fetch({ choose: (pair) => (entry.pair = pair) }).catch(() => null);
      this.#ready.push(entry);
    }
  }

  /** Whether the pair is shown, was shown last, or has an answer that may not be stored yet. */
  #repeats(pair) {
    const answered = this.#answered.filter((done) => done.pair);
    return [this.#current, answered.at(-1), ...answered.filter(({ stored }) => !stored)].some(
      (shown) => shown && pairKey(shown.pair) === pairKey(pair),
    );
  }

  #isReady(pair) {
    return this.#ready.some((entry) => entry.pair && pairKey(entry.pair) === pairKey(pair));
  }

  /** Returns a promise of the pair to show: a recent one only if its answer is stored and no other is proposed. */
  async #fetchNext() {
    const other = await this.#fetch();
    if (other) return other;
    await this.#answered.at(-1)?.response;
    return this.#fetch({ allowRepeat: true });
  }

  /** Returns a promise of a pair that was not shown recently, with its elements; null if there seems to be none. choose
   *  is called with the pair at once, so that no other fetch takes the same one. */
  async #fetch({ allowRepeat = false, choose = () => {} } = {}) {
    for (let attempt = 1; ; attempt++) {
      try {
        const pair = await this.#api.get(`${this.#path}/next-pair`);
        const isNew = !this.#repeats(pair) && !this.#isReady(pair);
        if (isNew || (allowRepeat && attempt >= MAX_ATTEMPTS)) {
          choose(pair);
          return { pair, elements: await pairElements(pair, this.#project, this.#path, this.#api) };
        }
        if (attempt >= MAX_ATTEMPTS) return null;
      } catch (error) {
        if (!(error instanceof RequestError && error.isTemporary)) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_PAUSE));
      }
    }
  }
}
