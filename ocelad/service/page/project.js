// A project on the page: what is asked, what is seen of it, and what arrives while it is open.

import { Unreachable } from "./api.js";
import { Colouring } from "./colouring.js";
import { byId, count, latestOnly, percent } from "./dom.js";
import { EventStream } from "./events.js";
import { FeaturesView } from "./features.js";
import { Items, itemSummary } from "./items.js";
import { ItemMap } from "./map.js";
import { NeighborsPanel } from "./neighbors.js";
import { sentence, showProblem, tell } from "./notices.js";
import { personName } from "./person.js";
import { Questions } from "./questions.js";
import { TimelineView } from "./timeline.js";

// At most so often is all that can be seen fetched anew, in ms.
const REFRESH_PAUSE = 250;
const LATELY = 20;
// A percentage of fewer says more than is known.
const ENOUGH_FOR_PERCENT = 20;
const PRESENT = 5 * 60_000;

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

export class ProjectPage {
  #api;
  #project;
  #path;
  #outbox;
  #items;
  #map;
  #colouring;
  #neighbors;
  #timeline;
  #features;
  #watching = 1;
  #answering = new Map();
  #connection = "starting";
  #questions;
  #focused = null;

  constructor(api, project, outbox) {
    const path = `v1/projects/${encodeURIComponent(project.id)}`;
    [this.#api, this.#project, this.#path, this.#outbox] = [api, project, path, outbox];
    this.#items = new Items(api, path);
    this.#map = new ItemMap(byId("map-points"), byId("map-marks"), {
      pointed: (position, x, y) => this.#point(position, x, y).catch(showProblem),
      opened: (position) => this.#open(position).catch(showProblem),
    });
    const controls = { choice: byId("colour-by"), nClusters: byId("n-clusters"), legend: byId("legend") };
    this.#colouring = new Colouring(api, path, project, this.#map, controls, () => this.refresh());
    this.#neighbors = new NeighborsPanel(api, path, byId("neighbors"), this.#map);
    this.#timeline = new TimelineView(byId("timeline"), byId("timeline-table"), byId("timeline-as-table"));
    this.#features = new FeaturesView(project, byId("features"), byId("features-hint"));
    this.#questions = new Questions(api, project, path, outbox, {
      show: (shown) => this.#show(shown),
      wait: () => this.#wait(),
      none: (problem) => this.#none(problem),
      tell,
    });
    byId("zoom-in").addEventListener("click", () => this.#map.zoomAt(1.6));
    byId("zoom-out").addEventListener("click", () => this.#map.zoomAt(1 / 1.6));
    byId("zoom-all").addEventListener("click", () => this.#map.all());
    this.#setSeq(project.seq);
    byId("n-answers").textContent = project.n_answers.toLocaleString("en");
  }

  get mayAnswer() {
    return this.#project.permission !== "read";
  }

  run() {
    if (this.mayAnswer) this.#questions.begin();
    else {
      byId("answers").hidden = true;
      this.#none(new Error("You may look at this project, but not answer in it."));
    }
    this.refresh();
    const stream = new EventStream(this.#api, `${this.#path}/events`, this.#project.seq, {
      state: (word) => this.#connected(word),
      hello: (told) => this.#hello(told),
      entries: (entries) => this.#entries(entries),
      learned: (told) => {
        if (told.seq !== Number(document.body.dataset.learned)) this.refresh();
      },
      items: () => {
        this.#items.forget();
        if (this.mayAnswer) this.#questions.begin();
        this.refresh();
      },
      people: ({ people }) => {
        this.#watching = people;
        this.#showConnection();
      },
      problem: showProblem,
    });
    setInterval(() => this.#showConnection(), 30_000);
    return stream.run();
  }

  answer(word) {
    if (this.mayAnswer) this.#questions.answer(word);
  }

  undo() {
    if (this.mayAnswer) this.#questions.undo();
  }

  repaint() {
    this.#colouring.paint();
    this.#timeline.draw();
    this.#features.draw();
  }

  refresh = latestOnly(() => this.#refresh().catch(showProblem), REFRESH_PAUSE);

  async #refresh() {
    const [map, timeline, metric] = await Promise.all([
      this.#api.get(`${this.#path}/map`, { clusters: this.#colouring.clustersWanted }),
      this.#api.get(`${this.#path}/timeline`),
      this.#api.get(`${this.#path}/metric`),
    ]);
    this.#colouring.update(map.n_items, map.clusters && bytesOf(map.clusters));
    const moved = this.#map.move(new Float32Array(bytesOf(map.xy).buffer));
    const canvas = byId("map-marks");
    if (moved) canvas.dataset.moved = String(Number(canvas.dataset.moved) + 1);
    canvas.setAttribute(
      "aria-label",
      `Map of ${count(map.n_items, "item")} after ${count(metric.n_answers, "answer")}`,
    );
    this.#timeline.update(timeline);
    this.#features.update(metric);
    this.#figures(metric, timeline);
    await this.#neighbors.refresh();
    // The three may be of different moments: what was learned since the first of them is yet to be fetched.
    document.body.dataset.learned = String(Math.min(map.seq, timeline.seq, metric.seq));
  }

  #figures({ n_answers }, { n_answers: answers, accuracy, random_pairs: random }) {
    byId("n-answers").textContent = n_answers.toLocaleString("en");
    let [judged, rightOnes] = [0, 0];
    for (let row = answers.length - 1; row >= 0 && judged < LATELY; row--) {
      const n = answers[row] - (answers[row - 1] ?? 0);
      [judged, rightOnes] = [judged + n, rightOnes + n * accuracy[row]];
    }
    byId("right-lately").textContent = judged ? `${Math.round(rightOnes)} of ${judged}` : "–";
    const share = random.n >= ENOUGH_FOR_PERCENT ? percent(random.n_correct / random.n) : random.n_correct;
    byId("right-honest").textContent = random.n ? `${share} of ${random.n}` : "–";
  }

  #wait() {
    byId("pair").setAttribute("aria-busy", "true");
    this.#mayPress(false);
  }

  /** Whether the answers can be pressed; the one that had the focus has it again when they can. */
  #mayPress(may) {
    const buttons = [...document.querySelectorAll("[data-answer]")];
    if (!may) this.#focused = buttons.find((button) => button === document.activeElement) ?? this.#focused;
    for (const button of buttons) button.disabled = !may;
    if (!may) return;
    if (document.activeElement === document.body) this.#focused?.focus({ preventScroll: true });
    this.#focused = null;
  }

  #show({ pair, elements }) {
    this.#mayPress(true);
    const frame = byId("pair");
    frame.replaceChildren(...elements);
    frame.dataset.shown = this.#project.display;
    frame.removeAttribute("aria-busy");
    byId("mark-choice").hidden = !frame.querySelector("mark, .difference");
    byId("why").textContent = pair.reason;
    byId("no-question").hidden = true;
    frame.hidden = false;
    this.#map.pair = [pair.left.position, pair.right.position];
  }

  /** Nothing to ask, and why. */
  #none(problem) {
    this.#mayPress(false);
    byId("pair").hidden = true;
    byId("mark-choice").hidden = true;
    byId("why").textContent = "";
    byId("no-question").hidden = false;
    byId("no-question").textContent =
      problem instanceof Unreachable
        ? `${problem.message} The next pair comes when it can.`
        : sentence(problem.message);
    this.#map.pair = [];
  }

  async #point(position, x, y) {
    const tooltip = byId("tooltip");
    this.#colouring.point(position, async (at) => (await this.#items.at(at)).id).catch(showProblem);
    if (position === null) {
      tooltip.hidden = true;
      delete tooltip.dataset.position;
      return;
    }
    if (tooltip.dataset.position !== String(position)) {
      tooltip.dataset.position = String(position);
      const item = await this.#items.at(position);
      const summary = await itemSummary(item, this.#api);
      if (tooltip.dataset.position !== String(position)) return;
      tooltip.replaceChildren(...summary);
      if (document.activeElement === byId("map-marks")) tell(`${item.id}${item.text ? `: ${item.text}` : ""}`);
    }
    tooltip.hidden = false;
    const frame = byId("map-frame");
    tooltip.style.left = `${Math.max(Math.min(x + 14, frame.clientWidth - tooltip.offsetWidth - 8), 8)}px`;
    const [below, above] = [y + 18, Math.max(y - tooltip.offsetHeight - 12, 8)];
    tooltip.style.top = `${below + tooltip.offsetHeight > frame.clientHeight ? above : below}px`;
  }

  async #open(position) {
    if (position === null) this.#neighbors.close();
    else await this.#neighbors.open((await this.#items.at(position)).id);
  }

  // What arrives.

  #hello({ seq, people }) {
    this.#watching = people;
    this.#showConnection();
    // A log that is shorter than what was seen of it is another one: restored from a backup.
    if (seq < Number(document.body.dataset.seq)) location.reload();
    this.#outbox.hurry();
    if (this.mayAnswer) this.#questions.begin();
    this.refresh();
  }

  #entries(entries) {
    this.#setSeq(entries.at(-1).seq);
    document.body.dataset.heard = String(Number(document.body.dataset.heard) + entries.length);
    for (const { person, at } of entries) {
      // Where there are tokens a name has the token's before it.
      const name = person.split("/").at(-1);
      if (name && name !== personName()) this.#answering.set(person, at);
    }
    this.#showConnection();
  }

  #setSeq(seq) {
    document.body.dataset.seq = String(seq);
  }

  #connected(word) {
    this.#connection = word;
    document.body.dataset.connection = word;
    this.#showConnection();
  }

  #showConnection() {
    const lately = [...this.#answering].filter(([, at]) => Date.now() - at < PRESENT).map(([who]) => who);
    const others = this.#watching - 1;
    const company = others === 1 && lately.length === 1 ? lately[0] : count(others, "other");
    const words = this.#connection === "live" ? (others > 0 ? `Live, with ${company}` : "Live") : "Reconnecting";
    byId("connection").title = lately.length ? `Answered in the last minutes: ${lately.join(", ")}` : "";
    if (byId("connection-words").textContent !== words) byId("connection-words").textContent = words;
  }
}
