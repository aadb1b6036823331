// The requests about projects as things: list, create, change, archive, copy, delete.

import { uploadFile } from "./upload.js";

// Longer guidelines do not fit into an address; they are sent after the file.
const MAX_GUIDELINES = 4000;

const pathOf = (id) => `v1/projects/${encodeURIComponent(id)}`;

export class ProjectsApi {
  #api;

  constructor(api) {
    this.#api = api;
  }

  /** Returns a promise of {projects, next}. after: the `next` of the previous page. */
  list({ archived = false, after = null } = {}) {
    return this.#api.get("v1/projects", { after, archived: archived ? "true" : null });
  }

  /** Returns a promise of a project with its guidelines and cards. */
  read(id) {
    return this.#api.get(pathOf(id));
  }

  /** Returns a promise of whether the person may create projects. */
  async mayCreate() {
    const { permissions } = await this.#api.get("v1/me");
    return Object.values(permissions).includes("admin");
  }

  /** Sends a file of items; parameters: [[name, value], ...]; progress(share of the bytes). */
  async create(file, parameters, guidelines, progress) {
    const short = guidelines.length <= MAX_GUIDELINES;
    const all = guidelines && short ? [...parameters, ["guidelines", guidelines]] : parameters;
    const created = await uploadFile(this.#api, `v1/projects?${new URLSearchParams(all)}`, file, progress);
    return short ? created : { ...created, ...(await this.change(created.id, { guidelines })) };
  }

  change(id, changes) {
    return this.#api.send("PATCH", pathOf(id), changes);
  }

  archive(id, archived) {
    return this.#api.send("POST", `${pathOf(id)}/${archived ? "archive" : "unarchive"}`);
  }

  copy(id, { id: newId, title, answers }) {
    return this.#api.send("POST", `${pathOf(id)}/copy`, { id: newId, title, answers });
  }

  remove(id) {
    return this.#api.send("DELETE", `${pathOf(id)}?confirm=${encodeURIComponent(id)}`);
  }
}
