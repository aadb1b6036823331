// Pairs about which people disagree, one at a time, settled by a reviewer.

import { answerBadge } from "./answer-row.js";
import { byId, element } from "./dom.js";
import { announce, showError } from "./messages.js";
import { formatTime } from "./numbers.js";
import { pairElements } from "./pair-view.js";
import { patiently } from "./patience.js";
import { questionOf } from "./question-words.js";
import { setUpShortcuts } from "./shortcuts.js";
import { say } from "./words.js";

export class Disagreements {
  #api;
  #team;
  #project;
  #settled;
  #waiting = [];
  #next = null;
  #n = 0;
  #busy = false;

  /** settled(): called after a pair was settled. */
  constructor(api, team, project, settled) {
    [this.#api, this.#team, this.#project, this.#settled] = [api, team, project, settled];
    byId("dispute-question").textContent = questionOf(project);
    for (const button of document.querySelectorAll("[data-settle]"))
      button.addEventListener("click", () => this.#settle(button.dataset.settle));
    byId("later").addEventListener("click", () => this.#later());
    const press = (selector) => () => byId("dispute").hidden || document.querySelector(selector).click();
    setUpShortcuts({ s: press("[data-settle=same]"), d: press("[data-settle=different]"), n: press("#later") });
  }

  /** Shows the first disagreement. */
  async load() {
    const { disagreements, next, n_disagreements: n } = await patiently(() => this.#team.disagreements());
    [this.#waiting, this.#next, this.#n] = [disagreements, next, n];
    await this.#show();
  }

  async #show() {
    const [current] = this.#waiting;
    const hint = this.#n ? say("disagreements.n", { n: this.#n }) : say("disagreements.none");
    byId("disagreements-hint").textContent = hint;
    byId("keys-option").hidden = !current;
    if (!current) {
      byId("dispute").hidden = true;
      return;
    }
    const path = `v1/projects/${encodeURIComponent(this.#project.id)}`;
    const shown = await pairElements({ ...current, differences: [] }, this.#project, path, this.#api);
    byId("dispute-pair").replaceChildren(...shown);
    // Without a name, the features are all that a reviewer can compare.
    const features = byId("dispute-pair").querySelector(".item.feature-values > details");
    if (features) features.open = true;
    byId("dispute-pair").dataset.display = this.#project.display;
    byId("dispute-rows").replaceChildren(...current.answers.map(answerLine));
    byId("dispute").dataset.seq = current.seq;
    byId("later").disabled = this.#n < 2;
    byId("dispute").hidden = false;
  }

  async #settle(answer) {
    const [current] = this.#waiting;
    if (this.#busy || !current) return;
    this.#busy = true;
    try {
      await this.#team.settle(current, answer);
      announce(say("disagreements.settled", { answer: say(`answered.${answer}`) }));
      this.#waiting.shift();
      this.#n -= 1;
      if (!this.#waiting.length) await this.load();
      else await this.#show();
      byId("disagreements-title").focus({ preventScroll: true });
      this.#settled();
    } catch (error) {
      showError(error);
      // Others may have settled it, or have changed their answers.
      await this.load().catch(showError);
    } finally {
      this.#busy = false;
    }
  }

  /** Puts the current pair behind the others. */
  async #later() {
    if (this.#busy || !this.#waiting.length) return;
    const current = this.#waiting.shift();
    if (!this.#waiting.length && this.#next !== null) {
      const page = await this.#team.disagreements(this.#next).catch(showError);
      if (page) [this.#waiting, this.#next] = [page.disagreements, page.next];
    } else this.#waiting.push(current);
    if (!this.#waiting.length) this.#waiting.push(current);
    await this.#show().catch(showError);
  }
}

function answerLine({ person, answer, at }) {
  return element(
    "tr",
    {},
    element("th", { scope: "row", dir: "auto" }, person || say("answers.nobody")),
    element("td", { "data-label": say("answers.answer") }, answerBadge(answer)),
    element("td", { "data-label": say("answers.when") }, formatTime(at)),
  );
}
