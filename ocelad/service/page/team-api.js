// The requests about the people of a project: figures, agreement, disagreements, weights, erasure; and the audit log.

import { newKey } from "./request-key.js";

// The largest page of the audit log, which is listed from its beginning, and how many entries are kept.
const AUDIT_PAGE = 1000;
const MAX_AUDIT = 5000;

export class TeamApi {
  #api;
  #path;
  #id;

  constructor(api, project) {
    this.#api = api;
    this.#id = project.id;
    this.#path = `v1/projects/${encodeURIComponent(project.id)}`;
  }

  /** Returns a promise of all people that the person may see, and totals. */
  async people() {
    const first = await this.#api.get(`${this.#path}/people`);
    const people = [...first.people];
    for (let { next } = first; (next ?? null) !== null; ) {
      const page = await this.#api.get(`${this.#path}/people`, { after: next });
      people.push(...page.people);
      next = page.next;
    }
    return { ...first, people };
  }

  agreement() {
    return this.#api.get(`${this.#path}/agreement`);
  }

  disagreements(after = null) {
    return this.#api.get(`${this.#path}/disagreements`, { after });
  }

  settle({ left, right }, answer) {
    const body = { left: left.id, right: right.id, answer };
    return this.#api.post(`${this.#path}/disagreements/settle`, body, newKey());
  }

  change(changes) {
    return this.#api.send("PATCH", this.#path, changes);
  }

  learnWeights() {
    return this.#api.send("POST", `${this.#path}/people/weights/learn`);
  }

  erase(person) {
    return this.#api.send("POST", `${this.#path}/people/erase`, { person, confirm: person });
  }

  /** Returns a promise of the entries of the audit log, the newest first. */
  async audit(onlyProject) {
    let entries = [];
    for (let after = 0; after !== null; ) {
      const page = await this.#api.get("v1/audit", { after, limit: AUDIT_PAGE, target: onlyProject ? this.#id : null });
      entries = [...entries, ...page.entries].slice(-MAX_AUDIT);
      after = page.next;
    }
    return entries.reverse();
  }
}
