// The form that imports existing answers: the file is checked first, and stored when the person agrees.

import { byId, element } from "./dom.js";
import { formatBytes, formatPercent } from "./numbers.js";
import { sentence } from "./messages.js";
import { clearRefusals, showRefusal } from "./refusals.js";
import { setUpFileInput } from "./upload.js";
import { say } from "./words.js";

const FORMATS = ["csv", "dedupe", "splink", "zingg"];

export class ImportForm {
  #answers;
  #imported;
  #file = null;
  #checked = null;
  #turn = 0;

  /** answers: AnswersApi; imported(): called after answers were stored. */
  constructor(answers, imported) {
    [this.#answers, this.#imported] = [answers, imported];
    byId("import-format").append(
      element("option", { value: "" }, say("columns.automatic")),
      ...FORMATS.map((format) => element("option", { value: format }, say(`import.format-${format}`))),
    );
    setUpFileInput(byId("import-zone"), byId("import-file"), (file) => {
      this.#file = file;
      this.#check();
    });
    for (const id of ["import-format", "import-id"]) byId(id).addEventListener("change", () => this.#check());
    byId("import-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#checked) this.#store();
    });
  }

  #options(more) {
    return { format: byId("import-format").value, id_column: byId("import-id").value.trim(), ...more };
  }

  /** Asks the service what the file contains; nothing is stored. */
  async #check() {
    const turn = ++this.#turn;
    this.#checked = null;
    byId("import-submit").hidden = true;
    byId("import-summary").replaceChildren();
    byId("import-chosen").textContent = this.#file
      ? say("import.chosen", { name: this.#file.name, size: formatBytes(this.#file.size) })
      : "";
    if (!this.#file) return;
    const found = await this.#send({ dry_run: "true", skip_unknown: "true" });
    if (!found || turn !== this.#turn) return;
    this.#checked = found;
    this.#showSummary(found);
    byId("import-submit").hidden = found.n_answers === 0;
    byId("import-submit").textContent = say("import.submit", { n: found.n_answers });
  }

  #showSummary(found) {
    const lines = [
      say("import.found", { format: say(`import.found-${found.format}`), answers: say("answers", { n: found.n_answers }) }),
      ...(found.n_left_out ? [say("import.left-out", { n: found.n_left_out })] : []),
      ...found.notes.map(sentence),
    ];
    byId("import-summary").replaceChildren(
      element("ul", { class: "plain-list" }, lines.map((line) => element("li", {}, line))),
      found.n_unknown ? unknownItems(found) : "",
    );
  }

  async #store() {
    const stored = await this.#send({ skip_unknown: String(this.#checked.n_unknown > 0) });
    if (!stored) return;
    const words = [
      say("import.done", { n: stored.n_imported }),
      ...(stored.n_repeated ? [say("import.repeated", { n: stored.n_repeated })] : []),
      ...stored.notes.map(sentence),
    ].join(" ");
    byId("import-form").reset();
    this.#file = null;
    await this.#check();
    byId("import-summary").replaceChildren(element("p", { class: "done" }, words));
    this.#imported();
  }

  /** Sends the file; returns a promise of the response, null if it was refused, which is shown. */
  async #send(options) {
    const form = byId("import-form");
    clearRefusals(form);
    this.#busy(true);
    try {
      return await this.#answers.importFile(this.#file, this.#options(options), showProgress);
    } catch (error) {
      showRefusal(form, error);
      return null;
    } finally {
      this.#busy(false);
    }
  }

  #busy(busy) {
    byId("import-upload").hidden = !busy;
    byId("import-submit").disabled = busy;
    if (busy) showProgress(0);
  }
}

function showProgress(share) {
  const bar = byId("import-progress");
  if (share < 1) bar.value = share;
  else bar.removeAttribute("value");
  const words = share < 1 ? say("upload.sent", { share: formatPercent(share) }) : say("upload.reading");
  byId("import-progress-text").textContent = words;
}

/** Returns the items that the project does not have: the first of them. */
function unknownItems({ n_unknown: n, unknown }) {
  return element(
    "div",
    { class: "unknown" },
    element("p", {}, element("strong", {}, say("import.unknown", { n }))),
    element(
      "ul",
      { class: "plain-list" },
      unknown.map(({ item, where }) => element("li", {}, element("code", { dir: "auto" }, item), ` (${where})`)),
    ),
    unknown.length < n ? element("p", { class: "hint" }, say("import.unknown-more", { n: n - unknown.length })) : [],
  );
}
