// Unsent answers. Each is stored in the browser until the service acknowledges it. They are sent in order with
// idempotency keys, so that an answer that is sent twice counts once.

import { RequestError, Unreachable } from "./api.js";

const PREFIX = "ocelad.unsent.";
const FIRST_PAUSE = 500;
const MAX_PAUSE = 5_000;

export class SendQueue {
  #api;
  #changed;
  #rejected;
  #unsent = [];
  #nAdded = 0;
  #seqByKey = new Map(); // null for an answer that was rejected
  #sending = false;
  #wake = () => {};

  /** changed(n): called with the number of unsent answers; rejected(error, message): called for a rejected one. */
  constructor(api, changed, rejected) {
    this.#api = api;
    this.#changed = changed;
    this.#rejected = rejected;
    addEventListener("beforeunload", (event) => {
      if (this.#unsent.length) event.preventDefault();
    });
    addEventListener("online", () => this.#wake());
  }

  get size() {
    return this.#unsent.length;
  }

  /** Sends what an earlier page could not send. */
  resume() {
    // Each answer has its own storage entry, so that tabs do not overwrite each other; the names sort by time.
    const names = Object.keys(localStorage)
      .filter((name) => name.startsWith(PREFIX))
      .sort();
    for (const name of names) this.#unsent.push({ name, ...JSON.parse(localStorage.getItem(name)) });
    this.#send();
  }

  /** Adds a request; returns its key and a promise of the response. An undo refers to the key of an answer. */
  add(path, body, undoes = null) {
    const key = crypto.randomUUID?.() ?? randomKey();
    const name = `${PREFIX}${pad(Date.now())}.${pad(this.#nAdded++)}.${key}`;
    const message = { name, path, body, key, undoes, person: this.#api.person() };
    this.#store(message);
    const response = new Promise((resolve) => (message.resolve = resolve));
    this.#unsent.push(message);
    this.#send();
    return { key, response };
  }

  #store({ name, path, body, key, undoes, person }) {
    localStorage.setItem(name, JSON.stringify({ path, body, key, undoes, person }));
  }

  /** Starts the next attempt at once. */
  retryNow() {
    this.#wake();
  }

  async #send() {
    this.#changed(this.size);
    if (this.#sending) return;
    this.#sending = true;
    let pause = FIRST_PAUSE;
    while (this.#unsent.length) {
      const message = this.#unsent[0];
      this.#nameUndone(message);
      if (message.undoes !== null && this.#seqByKey.get(message.undoes) === null) {
        // The answer was rejected: there is nothing to undo, and "undo the last" would undo an older answer.
        message.resolve?.(null);
        this.#remove(message);
        continue;
      }
      try {
        const response = await this.#api.post(message.path, message.body, message.key, message.person);
        this.#settle(message.key, response.last);
        message.resolve?.(response);
      } catch (error) {
        if (error instanceof Unreachable || (error instanceof RequestError && error.isTemporary)) {
          await this.#sleep(error.retryAfter ? 1000 * error.retryAfter : pause);
          pause = Math.min(2 * pause, MAX_PAUSE);
          continue;
        }
        this.#rejected(error, message);
        this.#settle(message.key, null);
        message.resolve?.(null);
      }
      pause = FIRST_PAUSE;
      this.#remove(message);
    }
    this.#sending = false;
  }

  /** Remembers the number of an answer, or that it was rejected, also for undos that a later page will send. */
  #settle(key, seq) {
    this.#seqByKey.set(key, seq);
    for (const message of this.#unsent.filter(({ undoes }) => undoes === key)) {
      if (seq === null) localStorage.removeItem(message.name);
      else this.#nameUndone(message);
    }
  }

  /** Lets an undo name the number of its answer; it is stored, so that a repetition sends the same request. */
  #nameUndone(message) {
    const seq = this.#seqByKey.get(message.undoes) ?? null;
    if (seq === null) return;
    message.body = { seq };
    message.undoes = null;
    this.#store(message);
  }

  #remove(message) {
    localStorage.removeItem(message.name);
    this.#unsent.shift();
    this.#changed(this.size);
  }

  #sleep(pause) {
    return new Promise((resolve) => {
      this.#wake = resolve;
      setTimeout(resolve, pause);
    });
  }
}

const pad = (number) => String(number).padStart(15, "0");

/** Replaces randomUUID, which browsers lack on plain HTTP from other hosts. */
function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
