// Answers on their way. Each is kept in this browser until the service says that it is durable, and sent in order
// with a key of its own, so that one that is sent twice counts once.

import { Refused, Unreachable } from "./api.js";

const PREFIX = "ocelad.unsent.";
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5_000;

export class Outbox {
  #api;
  #changed;
  #refused;
  #waiting = [];
  #added = 0;
  #numbers = new Map();
  #sending = false;
  #wake = () => {};

  /** changed(unsent): how many wait; refused(problem, message): the service will never take this one. */
  constructor(api, changed, refused) {
    this.#api = api;
    this.#changed = changed;
    this.#refused = refused;
    addEventListener("beforeunload", (event) => {
      if (this.#waiting.length) event.preventDefault();
    });
    addEventListener("online", () => this.#wake());
  }

  get size() {
    return this.#waiting.length;
  }

  /** Sends what a page before this one could not. */
  resume() {
    // Each has an entry of its own: two tabs do not write over each other's. Names begin with the time, and sort.
    const names = Object.keys(localStorage)
      .filter((name) => name.startsWith(PREFIX))
      .sort();
    for (const name of names) this.#waiting.push({ name, ...JSON.parse(localStorage.getItem(name)) });
    this.#send();
  }

  /** Its key, and a promise of what the service says to it, whenever that is; an undo names the key of an answer. */
  add(path, body, undoes = null) {
    const key = crypto.randomUUID?.() ?? randomKey();
    const name = `${PREFIX}${padded(Date.now())}.${padded(this.#added++)}.${key}`;
    const message = { name, path, body, key, undoes, person: this.#api.person() };
    this.#keep(message);
    const said = new Promise((resolve) => (message.resolve = resolve));
    this.#waiting.push(message);
    this.#send();
    return { key, said };
  }

  #keep({ name, path, body, key, undoes, person }) {
    localStorage.setItem(name, JSON.stringify({ path, body, key, undoes, person }));
  }

  /** Do not wait any longer before the next attempt. */
  hurry() {
    this.#wake();
  }

  async #send() {
    this.#changed(this.size);
    if (this.#sending) return;
    this.#sending = true;
    let pause = FIRST_PAUSE;
    while (this.#waiting.length) {
      const message = this.#waiting[0];
      // The answer before it has its number by now. It is kept, so that a repetition says the same.
      if (this.#numbers.has(message.undoes)) {
        message.body = { seq: this.#numbers.get(message.undoes) };
        message.undoes = null;
        this.#keep(message);
      }
      try {
        const said = await this.#api.post(message.path, message.body, message.key, message.person);
        this.#numbers.set(message.key, said.last);
        message.resolve?.(said);
      } catch (problem) {
        if (problem instanceof Unreachable || (problem instanceof Refused && problem.passing)) {
          await this.#rest(problem.retryAfter ? 1000 * problem.retryAfter : pause);
          pause = Math.min(2 * pause, LONGEST_PAUSE);
          continue;
        }
        this.#refused(problem, message);
        message.resolve?.(null);
      }
      pause = FIRST_PAUSE;
      localStorage.removeItem(message.name);
      this.#waiting.shift();
      this.#changed(this.size);
    }
    this.#sending = false;
  }

  #rest(pause) {
    return new Promise((resolve) => {
      this.#wake = resolve;
      setTimeout(resolve, pause);
    });
  }
}

const padded = (number) => String(number).padStart(15, "0");

/** randomUUID is missing where a page comes over plain HTTP from another machine; random values are not. */
function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
