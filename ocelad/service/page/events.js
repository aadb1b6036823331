// What happens in a project, as it happens: server-sent events, read from a stream because EventSource sends no headers.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
// The service says something every 15 s; after this long without a word the connection is taken for lost.
const LONGEST_SILENCE = 40_000;

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
  #wake = () => {};

  /** take: {state(word), hello(data), entries(list), learned(data), items(data)}; entries after `seq` come, each once. */
  constructor(api, path, seq, take) {
    this.#api = api;
    this.#path = path;
    this.#cursor = seq;
    this.#take = take;
    addEventListener("online", () => this.#wake());
  }

  /** Reads, and connects again with growing pauses, for as long as the page is there. */
  async run() {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        await this.#read(() => (pause = FIRST_PAUSE));
      } catch (problem) {
        this.#take.problem(problem);
      }
      this.#take.state("reconnecting");
      // Not all pages at once, when a service comes back.
      const wait = pause * (0.75 + 0.5 * Math.random());
      await new Promise((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  async #read(connected) {
    const silence = new AbortController();
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), LONGEST_SILENCE);
    };
    heard();
    try {
      const headers = { Accept: "text/event-stream", "Last-Event-ID": String(this.#cursor) };
      const response = await this.#api.request(this.#path, { headers, signal: silence.signal });
      const reader = messageReader((message) => this.#deliver(message));
      const words = new TextDecoder();
      const stream = response.body.getReader();
      connected();
      this.#take.state("live");
      for (;;) {
        const { done, value } = await stream.read();
        if (done) return;
        heard();
        reader(words.decode(value, { stream: true }));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #deliver({ event, data }) {
    if (event === "hello") this.#take.hello(data);
    if (event === "learned") this.#take.learned(data);
    if (event === "items") this.#take.items(data);
    if (event === "comparisons") {
      const fresh = data.entries.filter((entry) => entry.seq > this.#cursor);
      if (!fresh.length) return;
      this.#cursor = fresh.at(-1).seq;
      this.#take.entries(fresh);
    }
  }
}
