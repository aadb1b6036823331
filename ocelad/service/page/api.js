// Requests to the service. Pictures and events are fetched, not linked, because all requests need headers.

import { say } from "./words.js";

/** Headers are ASCII, and names may have letters of any script. */
const encodeName = encodeURIComponent;

/** A response with a status of 400 or above; its message is a sentence for people. */
export class RequestError extends Error {
  constructor(status, detail, retryAfter) {
    super(detail.message);
    this.status = status;
    this.code = detail.code;
    /** What in the request was wrong, such as "query.id"; null: unknown. */
    this.where = detail.where ?? null;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return this.status >= 500 || this.status === 429 || this.status === 408;
  }
}

/** No response: there is no connection, or the service is not running. */
export class Unreachable extends Error {
  constructor() {
    super(say("service.unreachable"));
  }
}

export class Api {
  #askToken;
  #asking = null;
  #pictures = new Map();

  /** person: () => name of the person; askToken: (rejected, login) => promise of a token; rejected: a token was
   *  sent; login: the path of the login, or null. */
  constructor(person, askToken) {
    this.person = person;
    this.#askToken = askToken;
  }

  get(path, parameters = {}) {
    const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
    const query = new URLSearchParams(given).toString();
    return this.#json(query ? `${path}?${query}` : path, {});
  }

  /** person: the name at the time of the answer. */
  post(path, body, key, person = this.person()) {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key, "Ocelad-Person": encodeName(person) };
    return this.#json(path, { method: "POST", body: JSON.stringify(body), headers });
  }

  async #json(path, request) {
    return (await this.request(path, request)).json();
  }

  /** Returns a promise of a local URL of a picture, which is fetched once. */
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

  /** PATCH, DELETE and others; body: JSON or nothing. Returns the JSON of the response; null: it has none. */
  async send(method, path, body) {
    const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    const response = await this.request(path, { method, ...json });
    const text = await response.text();
    return text ? JSON.parse(text) : null;
  }

  /** Returns the response to a request; asks for a token if one is required. */
  async request(path, { headers = {}, ...request }) {
    for (;;) {
      const token = sessionStorage.getItem("ocelad.token");
      const identity = { "Ocelad-Person": encodeName(this.person()), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
      let response;
      try {
        // Without the browser's cache, in which a request waits for another one with the same URL.
        response = await fetch(path, { ...request, headers: { ...identity, ...headers }, cache: "no-store" });
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Unreachable();
      }
      if (response.ok) return response;
      const detail = await response
        .json()
        .then((body) => body.error)
        .catch(() => null);
      const rejection = new RequestError(
        response.status,
        detail ?? { code: "unknown", message: say("service.status", { status: response.status }) },
        Number(response.headers.get("Retry-After")) || null,
      );
      if (response.status !== 401) throw rejection;
      // Another request may have received a token meanwhile; several rejected requests share one dialog.
      if (sessionStorage.getItem("ocelad.token") !== token) continue;
      const login = response.headers.get("Ocelad-Login");
      this.#asking ??= this.#askToken(token !== null, login).finally(() => (this.#asking = null));
      sessionStorage.setItem("ocelad.token", await this.#asking);
    }
  }
}
