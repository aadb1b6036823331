// The audit log: who did what, the newest first.

import { byId, element } from "./dom.js";
import { showError } from "./messages.js";
import { formatTime } from "./numbers.js";
import { knows, say } from "./words.js";

const STEP = 25;
const COLUMNS = ["answers.when", "audit.who", "audit.action", "audit.target", "audit.detail"];

export class AuditPanel {
  #team;
  #entries = [];
  #shown = STEP;

  constructor(team) {
    this.#team = team;
    byId("audit").hidden = false;
    byId("audit-project").addEventListener("change", () => this.load().catch(showError));
    byId("more-audit").addEventListener("click", () => {
      this.#shown += STEP;
      this.#show();
    });
  }

  async load() {
    this.#entries = await this.#team.audit(byId("audit-project").checked);
    this.#shown = STEP;
    this.#show();
  }

  #show() {
    const shown = this.#entries.slice(0, this.#shown);
    byId("more-audit").hidden = this.#entries.length <= this.#shown;
    byId("audit-list").replaceChildren(
      shown.length ? auditTable(shown) : element("p", { class: "empty" }, say("audit.none")),
    );
  }
}

function auditTable(entries) {
  return element(
    "table",
    { class: "wide" },
    element("caption", {}, say("audit.caption")),
    element("thead", {}, element("tr", {}, COLUMNS.map((key) => element("th", { scope: "col" }, say(key))))),
    element("tbody", {}, entries.map(auditRow)),
  );
}

function auditRow({ at, who, action, target, detail }) {
  const texts = [formatTime(at), who || "–", actionName(action), target || "–", describe(detail)];
  return element("tr", {}, texts.map((text, i) => element("td", { "data-label": say(COLUMNS[i]), dir: "auto" }, text)));
}

const actionName = (action) => (knows(`audit.${action}`) ? say(`audit.${action}`) : action);

/** Writes the details of an entry: "items: 5, features: 3". */
const describe = (detail) =>
  Object.entries(detail)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ") || "–";
