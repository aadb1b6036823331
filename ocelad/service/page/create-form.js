// The form that makes a project of a file.

import { checkedColumns, columnSelect, columnSet, selectedColumn } from "./column-choices.js";
import { byId, element } from "./dom.js";
import { FORMATS, formatOf, isNumeric, previewTable } from "./file-preview.js";
import { formatBytes, formatPercent } from "./numbers.js";
import { freeId } from "./project-id.js";
import { clearRefusals, refuse, showRefusal } from "./refusals.js";
import { setUpFileInput } from "./upload.js";
import { say } from "./words.js";

/** The roles that a column can have, as the service calls them. */
const ROLES = ["item_id", "item_title", "text", "link", "picture"];
const PREVIEWED_COLUMNS = 12;
const PREVIEWED_ROWS = 3;
// A name with one of these characters is a pattern or a list of names to the service.
const SPECIAL = /[,*?[\]]/;

export class CreateForm {
  #projects;
  #takenIds;
  #created;
  #file = null;
  #columns = [];
  #idIsOwn = false;

  /** projects: ProjectsApi; takenIds(): a set; created(project): called with the new project. */
  constructor(projects, takenIds, created) {
    [this.#projects, this.#takenIds, this.#created] = [projects, takenIds, created];
    const file = byId("file");
    file.accept = Object.keys(FORMATS)
      .map((suffix) => `.${suffix}`)
      .join(",");
    setUpFileInput(byId("drop-zone"), file, (chosen) => this.#choose(chosen));
    byId("title").addEventListener("input", () => this.#suggestId());
    byId("project-id").addEventListener("input", () => (this.#idIsOwn = true));
    byId("create-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
  }

  reset() {
    byId("create-form").reset();
    this.#choose(null);
  }

  /** Shows what follows from a file: its format, a title, and its columns. */
  async #choose(file) {
    clearRefusals(byId("create-form"));
    const format = file && formatOf(file.name);
    this.#file = format ? file : null;
    byId("after-file").hidden = !format;
    byId("submit-create").disabled = !format;
    byId("chosen-file").textContent = format
      ? say("create.chosen", { name: file.name, size: formatBytes(file.size), format: say(`format.${format}`) })
      : "";
    byId("columns").hidden = true;
    this.#columns = [];
    if (!file) return;
    if (!format) {
      refuse(byId("file-refused"), say("create.unknown-format", { name: file.name }));
      return;
    }
    byId("title").value = file.name.replace(/\.[^.]+(\.gz)?$/i, "");
    byId("question-text").placeholder = say("question");
    this.#idIsOwn = false;
    this.#suggestId();
    const table = await previewTable(file);
    if (table && this.#file === file) this.#showColumns(table);
  }

  #suggestId() {
    if (!this.#idIsOwn) byId("project-id").value = freeId(byId("title").value, this.#takenIds());
  }

  #showColumns(table) {
    const columns = (this.#columns = table.columns);
    byId("preview").replaceChildren(previewOf(table));
    const none = say("columns.automatic");
    byId("column-roles").replaceChildren(
      ...ROLES.map((role) => columnSelect({ role, label: say(`columns.${role}`), columns, none })),
    );
    const numbers = columns.filter((name, i) => name.toLowerCase() !== "id" && isNumeric(table, i));
    byId("column-sets").replaceChildren(
      columnSet({
        role: "features",
        label: say("columns.features"),
        automatic: say("columns.features-automatic"),
        columns,
        checked: numbers,
      }),
      columnSet({
        role: "show",
        label: say("columns.show"),
        automatic: say("columns.show-automatic"),
        columns,
        checked: columns.filter((name) => !numbers.includes(name)),
      }),
    );
    byId("columns").hidden = false;
  }

  /** The parameters of the request: [[name, value], ...]. */
  #parameters() {
    const value = (id) => byId(id).value.trim();
    const method = value("method");
    const given = [
      ["id", value("project-id")],
      ["format", formatOf(this.#file.name)],
      ["title", value("title")],
      ["question", value("question-text")],
      ["method", method.split("-")[0]],
      ["curved", method === "adaptive-linear" ? "false" : ""],
      ["missing", value("missing")],
      ["transitive", String(byId("transitive").checked)],
    ];
    if (!byId("columns").hidden) given.push(...this.#columnParameters());
    return given.filter(([, text]) => text);
  }

  #columnParameters() {
    const form = byId("create-form");
    const features = checkedColumns(form, "features");
    // Names that would be read as patterns or lists are given by those that are not features.
    const plain = features?.every((name) => !SPECIAL.test(name));
    const others = this.#columns.filter((name) => !features?.includes(name) && name !== selectedColumn(form, "item_id"));
    return [
      ...ROLES.map((role) => [role, selectedColumn(form, role)]),
      ...(features === null || !features.length ? [] : plain ? [["features", features.join(",")]] : others.map((name) => ["fields", name])),
      ...(checkedColumns(form, "show") ?? []).map((name) => ["show", name]),
    ];
  }

  async #send() {
    const form = byId("create-form");
    clearRefusals(form);
    if (!this.#file) return;
    if (!byId("columns").hidden && checkedColumns(form, "features")?.length === 0) {
      refuse(form.querySelector("[data-refuses=features]"), say("columns.no-features"));
      return;
    }
    this.#busy(true);
    try {
      const guidelines = byId("guidelines-input").value.trim();
      const created = await this.#projects.create(this.#file, this.#parameters(), guidelines, showProgress);
      this.reset();
      this.#created(created);
    } catch (error) {
      showRefusal(form, error);
    } finally {
      this.#busy(false);
    }
  }

  #busy(busy) {
    byId("upload").hidden = !busy;
    byId("submit-create").disabled = busy || !this.#file;
    byId("create-form").setAttribute("aria-busy", String(busy));
    if (busy) showProgress(0);
  }
}

function showProgress(share) {
  const bar = byId("upload-progress");
  if (share < 1) bar.value = share;
  else bar.removeAttribute("value");
  byId("upload-text").textContent = share < 1 ? say("upload.sent", { share: formatPercent(share) }) : say("upload.reading");
}

/** Returns a table of the first rows and columns. */
function previewOf({ columns, rows }) {
  const shown = columns.slice(0, PREVIEWED_COLUMNS);
  const more = columns.length - shown.length;
  return element(
    "table",
    {},
    element("caption", {}, more ? say("columns.caption-more", { n: more }) : say("columns.caption")),
    element("thead", {}, element("tr", {}, shown.map((name) => element("th", { scope: "col", dir: "auto" }, name)))),
    element(
      "tbody",
      {},
      rows
        .slice(0, PREVIEWED_ROWS)
        .map((row) => element("tr", {}, shown.map((_, i) => element("td", { dir: "auto" }, row[i] ?? "")))),
    ),
  );
}
