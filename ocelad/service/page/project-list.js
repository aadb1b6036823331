// The list of all projects, with what the person may do with each.

import { Unreachable } from "./api.js";
import { CreateForm } from "./create-form.js";
import { byId } from "./dom.js";
import { announce, hideBanner, sentence, showBanner, showError } from "./messages.js";
import { isArchived, projectCard } from "./project-card.js";
import { openCopy, openDelete, openSettings } from "./project-dialogs.js";
import { addressOf } from "./shell.js";
import { say } from "./words.js";

export class ProjectList {
  #projects;
  #listed = [];
  #next = null;
  #mayCreate = false;
  #form;

  constructor(projects) {
    this.#projects = projects;
    this.#form = new CreateForm(projects, () => this.#ids(), (created) => this.#onCreated(created));
    byId("show-archived").addEventListener("change", () => this.load());
    byId("more-projects").addEventListener("click", () => this.#fetch(this.#next).catch(showError));
    byId("new-project").addEventListener("click", () => this.#openForm(byId("create").hidden));
    byId("cancel-create").addEventListener("click", () => this.#openForm(false));
  }

  #ids() {
    return new Set(this.#listed.map(({ id }) => id));
  }

  /** Shows the first page of projects; says so if the service does not respond. */
  async load() {
    try {
      this.#mayCreate = await this.#projects.mayCreate();
      this.#listed = [];
      await this.#fetch(null);
      hideBanner("unreachable");
      if (!this.#listed.length && this.#mayCreate) this.#openForm(true, { focus: false });
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      showBanner("unreachable", error.message, [[say("retry"), () => this.load().catch(showError)]]);
    }
  }

  async #fetch(after) {
    const { projects, next } = await this.#projects.list({ archived: byId("show-archived").checked, after });
    const known = this.#ids();
    this.#listed.push(...projects.filter(({ id }) => !known.has(id)));
    this.#next = next ?? null;
    this.#show();
  }

  #show() {
    const wanted = byId("show-archived").checked;
    const shown = this.#listed.filter((project) => wanted || !isArchived(project));
    byId("project-list").replaceChildren(...shown.map((project) => projectCard(project, this.#actions(project))));
    byId("project-list").removeAttribute("aria-busy");
    byId("more-projects").hidden = this.#next === null;
    byId("new-project").hidden = !this.#mayCreate;
    byId("no-projects").hidden = shown.length > 0;
    byId("no-projects").textContent = say(this.#mayCreate ? "projects.none-create" : "projects.none-ask");
  }

  /** What the person may do with a project: functions by name. */
  #actions(project) {
    if (project.permission !== "admin") return {};
    const guard = (action) => () => action().catch(showError);
    const archived = isArchived(project);
    return {
      settings: guard(() => this.#changeSettings(project)),
      ...(this.#mayCreate ? { copy: guard(() => this.#copy(project)) } : {}),
      [archived ? "unarchive" : "archive"]: guard(() => this.#archive(project, !archived)),
      delete: guard(() => this.#delete(project)),
    };
  }

  async #changeSettings(project) {
    const changed = await openSettings(this.#projects, await this.#projects.read(project.id));
    if (changed) this.#replace(project, changed, say("settings.saved", { project: changed.title }));
  }

  async #archive(project, archived) {
    await this.#projects.archive(project.id, archived);
    const words = say(archived ? "projects.was-archived" : "projects.was-unarchived", { project: project.title });
    this.#replace(project, { ...project, archived_at: archived ? Date.now() : null }, words);
    if (archived) this.#offer("archived", words, [[say("projects.unarchive"), () => this.#archive(project, false).catch(showError)]]);
    else hideBanner("archived");
  }

  async #copy(project) {
    const copy = await openCopy(this.#projects, project, this.#ids());
    if (!copy) return;
    this.#listed.unshift(copy);
    this.#show();
    this.#offer("copied", say("copy.done", { project: copy.title }), [[say("projects.go"), () => visit(copy)]]);
  }

  async #delete(project) {
    // The list does not know all numbers; a project that cannot be read can be deleted.
    const known = await this.#projects.read(project.id).catch(() => project);
    if (!(await openDelete(this.#projects, known))) return;
    this.#listed = this.#listed.filter(({ id }) => id !== project.id);
    this.#show();
    this.#offer("deleted", say("delete.done", { project: project.title }));
    byId("projects-title").focus();
  }

  #replace(project, changed, words) {
    this.#listed = this.#listed.map((each) => (each.id === project.id ? { ...each, ...changed } : each));
    this.#show();
    announce(words);
  }

  #offer(banner, words, actions = []) {
    showBanner(banner, words, [...actions, [say("close"), () => hideBanner(banner)]]);
  }

  #openForm(open, { focus = true } = {}) {
    byId("create").hidden = !open;
    byId("new-project").setAttribute("aria-expanded", String(open));
    if (!open) this.#form.reset();
    if (!focus) return;
    byId(open ? "create-title" : "new-project").focus();
    if (open) byId("create").scrollIntoView();
  }

  #onCreated(created) {
    this.#listed.unshift(created);
    this.#openForm(false);
    this.#show();
    const notes = (created.notes ?? []).map(sentence).join(" ");
    const words = say("create.done", {
      project: created.title,
      items: say("items", { n: created.n_items }),
      features: say("features", { n: created.feature_names.length }),
    });
    showBanner("created", words, [[say("projects.go"), () => visit(created)], [say("close"), () => hideBanner("created")]], notes);
    announce(words);
  }
}

const visit = (project) => location.assign(addressOf("index", project.id));
