// The event stream of a project. EventSource cannot send headers, so that the stream is read with fetch.

import { RequestError } from "./api.js";

const FIRST_PAUSE = 500;
const MAX_PAUSE = 5_000;
// The service sends something every 15 s; after this many milliseconds without data the connection counts as lost.
const MAX_SILENCE = 40_000;
// A tab closes its connection after it was hidden for this long, because a browser has six connections for all tabs.
const MAX_HIDDEN = 60_000;

/** Returns a function that takes pieces of an event stream and calls handle with messages {event, data}. */
function messageReader(handle) {
  let rest = "";
  let event = "message";
  let data = [];
  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length) handle({ event, data: JSON.parse(data.join("\n")) });
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
  #handlers;
  #cursor;
  // Identifies the log up to the cursor: the service says "replaced" if it has another one.
  #log = "";
  #pause = FIRST_PAUSE;
  #wake = () => {};

  /** handlers: state(name), error(error), entries(list), and hello, learned, items and people with their data.
   *  Each entry after `seq` is delivered once. */
  constructor(api, path, seq, handlers) {
    this.#api = api;
    this.#path = path;
    this.#cursor = seq;
    this.#handlers = handlers;
    addEventListener("online", () => this.#wake());
  }

  /** Reads events without end, and reconnects with growing pauses. */
  async run() {
    for (;;) {
      if (document.hidden)
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
      try {
        await this.#read();
      } catch (error) {
        // The state shows a lost connection; only a rejected request has a message.
        if (error instanceof RequestError) this.#handlers.error(error);
      }
      this.#handlers.state("reconnecting");
      // Jitter, so that not all pages reconnect at once.
      const wait = this.#pause * (0.75 + 0.5 * Math.random());
      this.#pause = Math.min(2 * this.#pause, MAX_PAUSE);
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
    const onData = () => {
      clearTimeout(timer);
      timer = setTimeout(lose, MAX_SILENCE);
    };
    let rest = 0;
    const onVisibility = () => {
      clearTimeout(rest);
      if (document.hidden) rest = setTimeout(lose, MAX_HIDDEN);
    };
    onData();
    addEventListener("offline", lose);
    document.addEventListener("visibilitychange", onVisibility);
    try {
      const seen = this.#log ? `${this.#cursor}-${this.#log}` : String(this.#cursor);
      const headers = { Accept: "text/event-stream", "Last-Event-ID": seen };
      const response = await this.#api.request(this.#path, { headers, signal: lost.signal });
      const reader = messageReader((message) => this.#deliver(message));
      const decoder = new TextDecoder();
      const stream = response.body.getReader();
      for (;;) {
        const { done, value } = await stream.read();
        if (done) return;
        onData();
        reader(decoder.decode(value, { stream: true }));
      }
    } finally {
      clearTimeout(timer);
      clearTimeout(rest);
      removeEventListener("offline", lose);
      document.removeEventListener("visibilitychange", onVisibility);
    }
  }

  #deliver({ event, data }) {
    // The log is another one than the page has shown, such as after a backup was restored. Queued answers are stored.
    if (event === "replaced") return location.reload();
    if (event === "hello") {
      this.#pause = FIRST_PAUSE;
      this.#log = data.log ?? "";
      this.#handlers.state("live");
    }
    if (["hello", "learned", "items", "people"].includes(event)) this.#handlers[event](data);
    if (event !== "comparisons") return;
    const received = data.entries.filter((entry) => entry.seq > this.#cursor);
    if (!received.length) return;
    this.#cursor = received.at(-1).seq;
    this.#log = data.log ?? "";
    this.#handlers.entries(received);
  }
}
