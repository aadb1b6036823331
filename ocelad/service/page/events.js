// What happens in a project, as it happens: server-sent events, read from a stream, as EventSource sends no headers.

import { Refused } from "./api.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5_000;
// The service says something every 15 s; after this long without a word the connection is taken for lost.
const LONGEST_SILENCE = 40_000;
// A tab that nobody has looked at for so long gives its connection back: a browser has six of them for all tabs.
const LONGEST_UNSEEN = 60_000;

/** Splits a stream of text into messages {event, data}; feed it pieces as they come. */
function messageReader(take) {
  let rest = "";
  let event = "message";
  let data = [];
  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length) take({ event, data: JSON.parse(data.join("\n")) });
        [event, data] = ["message", []];
        continue;
      }
      const colon = line.indexOf(":");
      const [name, value] = colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
      if (name === "event") event = value;
      if (name === "data") data.push(value);
    }
  };
}

export class EventStream {
  #api;
  #path;
  #take;
  #cursor;
  #pause = FIRST_PAUSE;
  #wake = () => {};

  /** take: what is told to: state(word), problem(error), entries(list), and hello, learned, items and people with
   *  their data. Entries after `seq` come, each once. */
  constructor(api, path, seq, take) {
    this.#api = api;
    this.#path = path;
    this.#cursor = seq;
    this.#take = take;
    addEventListener("online", () => this.#wake());
  }

  /** Reads, and connects again with growing pauses, for as long as the page is there. */
  async run() {
    for (;;) {
      if (document.hidden)
        await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
      try {
        await this.#read();
      } catch (problem) {
        // A connection that breaks is told by the state; only a refusal has something to say.
        if (problem instanceof Refused) this.#take.problem(problem);
      }
      this.#take.state("reconnecting");
      // Not all pages at once, when a service comes back.
      const wait = this.#pause * (0.75 + 0.5 * Math.random());
      this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE);
      await new Promise((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  async #read() {
    const lost = new AbortController();
    const lose = () => lost.abort();
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(lose, LONGEST_SILENCE);
    };
    let rest = 0;
    const looked = () => {
      clearTimeout(rest);
      if (document.hidden) rest = setTimeout(lose, LONGEST_UNSEEN);
    };
    heard();
    addEventListener("offline", lose);
    document.addEventListener("visibilitychange", looked);
    try {
      const headers = { Accept: "text/event-stream", "Last-Event-ID": String(this.#cursor) };
      const response = await this.#api.request(this.#path, { headers, signal: lost.signal });
      const reader = messageReader((message) => this.#deliver(message));
      const words = new TextDecoder();
      const stream = response.body.getReader();
      for (;;) {
        const { done, value } = await stream.read();
        if (done) return;
        heard();
        reader(words.decode(value, { stream: true }));
      }
    } finally {
      clearTimeout(timer);
      clearTimeout(rest);
      removeEventListener("offline", lose);
      document.removeEventListener("visibilitychange", looked);
    }
  }

  #deliver({ event, data }) {
    if (event === "hello") {
      this.#pause = FIRST_PAUSE;
      this.#take.state("live");
    }
    if (["hello", "learned", "items", "people"].includes(event)) this.#take[event](data);
    if (event !== "comparisons") return;
    const fresh = data.entries.filter((entry) => entry.seq > this.#cursor);
    if (!fresh.length) return;
    this.#cursor = fresh.at(-1).seq;
    this.#take.entries(fresh);
  }
}
