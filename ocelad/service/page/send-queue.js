// Unsent answers. Each is stored in the browser until the service acknowledges it, or until the person discards it.
// They are sent in order with idempotency keys, so that an answer that is sent twice counts once.
//
// Each project has a lane of its own, so that a refusal by one project does not delay the answers of others.

import { RequestError, Unreachable } from "./api.js";
import { newKey } from "./request-key.js";

const PREFIX = "ocelad.unsent.";
const FIRST_PAUSE = 500;
const MAX_PAUSE = 5_000;
// The service refuses one request with these, and may accept others: the conflict or fault is in the request.
const REFUSES_ONE = new Set([400, 409, 413, 422]);
const UNKNOWN_IN_PROJECT = new Set(["unknown_item", "unknown_entry"]);

const refusesOne = ({ status, code }) => REFUSES_ONE.has(status) || UNKNOWN_IN_PROJECT.has(code);
const isAnswer = ({ body }) => "answer" in body;
const isTemporary = (error) => error instanceof Unreachable || (error instanceof RequestError && error.isTemporary);
/** Whether a request undoes "the last answer"; sent later, it would undo another one. */
const undoesLast = ({ path, body, undoes }) => path.endsWith("/undo") && body.seq === null && undoes === null;
const laneOf = (path) => path.split("/").slice(0, 3).join("/");
const byTime = (one, other) => (one.name < other.name ? -1 : 1);

/** The requests to one project. */
class Lane {
  waiting = []; // in the order in which they are sent
  held = []; // refused, until the person decides
  refusal = null; // the last error of a held one
  blocked = false; // whether the project refuses all of them
  sending = false;
  wake = () => {};

  constructor(path) {
    this.path = path;
  }

  get project() {
    return decodeURIComponent(this.path.split("/").at(-1));
  }
}

export class SendQueue {
  #api;
  #page;
  #lanes = new Map();
  #nAdded = 0;
  #seqByKey = new Map(); // null for an answer that was withdrawn

  /** page: {unsent(n), held(lane), dropped(error), notStored()}. unsent: the number of unsent requests has changed;
   *  held: the refused requests of a lane {project, held, refusal} have changed; dropped: a request was refused in which
   *  nothing is lost; notStored: the browser cannot store an answer. */
  constructor(api, page) {
    this.#api = api;
    this.#page = page;
    addEventListener("beforeunload", (event) => {
      if (this.size) event.preventDefault();
    });
    addEventListener("online", () => this.retryNow());
    // Another tab has sent or discarded it.
    addEventListener("storage", ({ key, newValue }) => {
      if (key?.startsWith(PREFIX) && newValue === null) this.#forgetHeld((message) => message.name === key);
    });
  }

  get size() {
    return [...this.#lanes.values()].reduce((n, { waiting }) => n + waiting.length, 0);
  }

  /** Sends what an earlier page could not send. */
  resume() {
    // Each answer has its own storage entry, so that tabs do not overwrite each other; the names sort by time.
    const names = Object.keys(localStorage)
      .filter((name) => name.startsWith(PREFIX))
      .sort();
    for (const name of names) {
      const message = { name, ...JSON.parse(localStorage.getItem(name)) };
      this.#lane(message.path).waiting.push(message);
    }
    for (const lane of this.#lanes.values()) this.#send(lane);
  }

  /** Adds a request; returns its key and a promise of the response: null if it was refused. An undo refers to the key
   *  of an answer. */
  add(path, body, undoes = null) {
    const key = newKey();
    const name = `${PREFIX}${pad(Date.now())}.${pad(this.#nAdded++)}.${key}`;
    const message = { name, path, body, key, undoes, person: this.#api.person() };
    this.#store(message);
    const response = new Promise((resolve) => (message.resolve = resolve));
    const lane = this.#lane(path);
    lane.waiting.push(message);
    this.#send(lane);
    return { key, response };
  }

  /** Starts the next attempts at once. */
  retryNow() {
    for (const lane of this.#lanes.values()) lane.wake();
  }

  // What a person decides about the refused requests of a lane.

  /** Sends them again. */
  retryHeld(lane) {
    lane.waiting = [...lane.held, ...lane.waiting].sort(byTime);
    [lane.held, lane.refusal, lane.blocked] = [[], null, false];
    this.#page.held(lane);
    this.#send(lane);
  }

  /** Returns them for a file. */
  heldAsJson(lane) {
    const requests = lane.held.map(({ name, path, body, person, key }) => ({
      at: new Date(Number(name.slice(PREFIX.length).split(".")[0])).toISOString(),
      person,
      request: path.split("/").slice(3).join("/"),
      ...body,
      key,
    }));
    return { project: lane.project, refused: lane.refusal?.message ?? null, requests };
  }

  discardHeld(lane) {
    const discarded = lane.held;
    [lane.held, lane.refusal, lane.blocked] = [[], null, false];
    for (const { name } of discarded) localStorage.removeItem(name);
    this.#page.held(lane);
  }

  // Sending.

  #lane(path) {
    const start = laneOf(path);
    if (!this.#lanes.has(start)) this.#lanes.set(start, new Lane(start));
    return this.#lanes.get(start);
  }

  #store({ name, path, body, key, undoes, person }) {
    try {
      localStorage.setItem(name, JSON.stringify({ path, body, key, undoes, person }));
    } catch {
      this.#page.notStored();
    }
  }

  async #send(lane) {
    this.#page.unsent(this.size);
    if (lane.sending) return;
    lane.sending = true;
    let pause = FIRST_PAUSE;
    while (lane.waiting.length) {
      const [message] = lane.waiting;
      this.#nameUndone(message);
      if (this.#isWithdrawn(lane, message)) {
        // The answer was not stored: there is nothing to undo, and "undo the last" would undo an older answer.
        this.#remove(lane, message);
        continue;
      }
      if (lane.blocked) {
        this.#hold(lane, message);
        continue;
      }
      try {
        const response = await this.#api.post(message.path, message.body, message.key, message.person);
        this.#settle(lane, message.key, response.last ?? null);
        this.#remove(lane, message, response);
      } catch (error) {
        if (isTemporary(error)) {
          await this.#sleep(lane, error.retryAfter ? 1000 * error.retryAfter : pause);
          pause = Math.min(2 * pause, MAX_PAUSE);
          continue;
        }
        this.#refuse(lane, message, error);
      }
      pause = FIRST_PAUSE;
    }
    lane.sending = false;
  }

  #refuse(lane, message, error) {
    const one = refusesOne(error);
    if ((one && !isAnswer(message)) || undoesLast(message)) {
      this.#page.dropped(error);
      this.#settle(lane, message.key, null);
      this.#remove(lane, message);
      return;
    }
    lane.refusal = error;
    lane.blocked = !one;
    this.#hold(lane, message);
  }

  /** Keeps a request until the person decides. */
  #hold(lane, message) {
    if (undoesLast(message)) {
      this.#remove(lane, message);
      return;
    }
    lane.waiting = lane.waiting.filter((each) => each !== message);
    lane.held.push(message);
    message.resolve?.(null);
    this.#page.unsent(this.size);
    this.#page.held(lane);
  }

  /** Whether a request undoes an answer that was not stored; a refused answer is withdrawn by its undo. */
  #isWithdrawn(lane, { undoes }) {
    if (undoes === null) return false;
    if (lane.held.some(({ key }) => key === undoes)) {
      this.#seqByKey.set(undoes, null);
      this.#forgetHeld(({ key }) => key === undoes);
    }
    return this.#seqByKey.get(undoes) === null;
  }

  #forgetHeld(matches) {
    for (const lane of this.#lanes.values()) {
      const forgotten = lane.held.filter(matches);
      if (!forgotten.length) continue;
      for (const { name } of forgotten) localStorage.removeItem(name);
      lane.held = lane.held.filter((message) => !forgotten.includes(message));
      this.#page.held(lane);
    }
  }

  /** Remembers the number of an answer, or that it was withdrawn, also for undos that a later page will send. */
  #settle(lane, key, seq) {
    this.#seqByKey.set(key, seq);
    for (const message of lane.waiting.filter(({ undoes }) => undoes === key)) {
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

  #remove(lane, message, response = null) {
    message.resolve?.(response);
    localStorage.removeItem(message.name);
    lane.waiting = lane.waiting.filter((each) => each !== message);
    this.#page.unsent(this.size);
  }

  #sleep(lane, pause) {
    return new Promise((resolve) => {
      lane.wake = resolve;
      setTimeout(resolve, pause);
    });
  }
}

const pad = (number) => String(number).padStart(15, "0");
