// The requests about the answers of a project: list, change, undo, export, import.

import { newKey } from "./request-key.js";
import { uploadFile } from "./upload.js";

const PAGE_SIZE = 50;

export class AnswersApi {
  #api;
  #path;

  constructor(api, project) {
    this.#api = api;
    this.#path = `v1/projects/${encodeURIComponent(project.id)}`;
  }

  /** Returns a promise of {answers, next, n_answers, n_items_searched}; filters: values by name, "" and null: any. */
  list(filters, after = null, limit = PAGE_SIZE) {
    return this.#api.get(`${this.#path}/answers`, { ...given(filters), after, limit });
  }

  /** The path of the answers that pass the filters, as CSV. */
  csvPath(filters) {
    return `${this.#path}/answers?${new URLSearchParams({ ...given(filters), format: "csv" })}`;
  }

  exportPath(format) {
    return `${this.#path}/export?${new URLSearchParams({ content: "comparisons", format })}`;
  }

  change(seq, answer) {
    return this.#api.post(`${this.#path}/answers/${seq}/change`, { answer }, newKey());
  }

  undo(seq) {
    return this.#api.post(`${this.#path}/undo`, { seq }, newKey());
  }

  /** Returns a promise of the names of the people who have answered, as far as the person may see them. */
  async people() {
    const { people } = await this.#api.get(`${this.#path}/people`);
    return people.map(({ person }) => person);
  }

  /** Sends a file of answers; options: format, id_column, skip_unknown, dry_run. */
  importFile(file, options, progress) {
    return uploadFile(this.#api, `${this.#path}/import?${new URLSearchParams(given(options))}`, file, progress);
  }
}

const given = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => (value ?? "") !== ""));
