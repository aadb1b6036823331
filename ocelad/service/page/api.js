// The service, over HTTP. Headers say who asks, so that pictures and events are fetched, too, not linked.

/** An answer of the service with a status of 400 or above; its message is a sentence for people. */
export class Refused extends Error {
  constructor(status, detail, retryAfter) {
    super(detail.message);
    this.status = status;
    this.code = detail.code;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may be taken later. */
  get passing() {
    return this.status >= 500 || this.status === 429 || this.status === 408;
  }
}

/** No answer at all: no connection, or the service is not running. */
export class Unreachable extends Error {
  constructor() {
    super("The service cannot be reached.");
  }
}

export class Api {
  #askToken;
  #asking = null;
  #pictures = new Map();

  /** person: () => the name of who answers; askToken: (refused) => promise of a token; refused: one was sent. */
  constructor(person, askToken) {
    this.person = person;
    this.#askToken = askToken;
  }

  get(path, parameters = {}) {
    const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
    const query = new URLSearchParams(given).toString();
    return this.#json(query ? `${path}?${query}` : path, {});
  }

  /** person: who answered, where that was somebody else's name then. */
  post(path, body, key, person = this.person()) {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key, "Ocelad-Person": person };
    return this.#json(path, { method: "POST", body: JSON.stringify(body), headers });
  }

  async #json(path, request) {
    return (await this.request(path, request)).json();
  }

  /** The address of a picture's copy in this browser; fetched once. */
  picture(address) {
    if (!this.#pictures.has(address)) {
      const copy = this.request(address.replace(/^\//, ""), {})
        .then((response) => response.blob())
        .then((blob) => URL.createObjectURL(blob));
      copy.catch(() => this.#pictures.delete(address));
      this.#pictures.set(address, copy);
      if (this.#pictures.size > 1000) this.#forget(this.#pictures.keys().next().value);
    }
    return this.#pictures.get(address);
  }

  async #forget(address) {
    const copy = this.#pictures.get(address);
    this.#pictures.delete(address);
    URL.revokeObjectURL(await copy);
  }

  /** The response, where the service took the request; asks for a token where one is missing. */
  async request(path, { headers = {}, ...request }) {
    for (;;) {
      const token = sessionStorage.getItem("ocelad.token");
      const who = { "Ocelad-Person": this.person(), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
      let response;
      try {
        // Not even looked for in the browser's cache, where a request waits for another one to the same address.
        response = await fetch(path, { ...request, headers: { ...who, ...headers }, cache: "no-store" });
      } catch (problem) {
        if (problem.name === "AbortError") throw problem;
        throw new Unreachable();
      }
      if (response.ok) return response;
      const detail = await response
        .json()
        .then((body) => body.error)
        .catch(() => null);
      const refused = new Refused(
        response.status,
        detail ?? { code: "unknown", message: `The service answered with status ${response.status}.` },
        Number(response.headers.get("Retry-After")) || null,
      );
      if (response.status !== 401) throw refused;
      // Another request may have brought a token meanwhile; and many that are refused at once ask one time.
      if (sessionStorage.getItem("ocelad.token") !== token) continue;
      this.#asking ??= this.#askToken(token !== null).finally(() => (this.#asking = null));
      sessionStorage.setItem("ocelad.token", await this.#asking);
    }
  }
}
