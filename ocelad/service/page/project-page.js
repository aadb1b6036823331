// The page of a project: connects its panels, the pairs and the event stream.

import { Unreachable } from "./api.js";
import { Colouring } from "./map-colouring.js";
import { byId, coalesce, count, formatPercent } from "./dom.js";
import { EventStream } from "./events.js";
import { FeaturesView } from "./features.js";
import { ItemCache, itemSummary } from "./items.js";
import { ItemMap } from "./map.js";
import { NeighborsPanel } from "./neighbors.js";
import { announce, sentence, showError } from "./messages.js";
import { personName } from "./person-name.js";
import { PairQueue } from "./pair-queue.js";
import { PilesPanel } from "./piles.js";
import { TimelineView } from "./timeline.js";

// The shortest time between two updates of the panels, in milliseconds.
const REFRESH_PAUSE = 250;
// The number of answers in the recent accuracy.
const N_RECENT = 20;
// The accuracy on fewer pairs is shown as a count.
const MIN_FOR_PERCENT = 20;
// Milliseconds for which the name of another person is shown after an answer.
const PRESENCE = 5 * 60_000;

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

export class ProjectPage {
  #api;
  #project;
  #path;
  #sendQueue;
  #items;
  #map;
  #colouring;
  #neighbors;
  #timeline;
  #features;
  #watching = 1;
  #answering = new Map();
  #connection = "starting";
  #pairQueue;
  #piles = null;
  #focused = null;

  constructor(api, project, sendQueue) {
    const path = `v1/projects/${encodeURIComponent(project.id)}`;
    [this.#api, this.#project, this.#path, this.#sendQueue] = [api, project, path, sendQueue];
    this.#items = new ItemCache(api, path);
    this.#map = new ItemMap(byId("map-points"), byId("map-marks"), {
      pointed: (position, x, y) => this.#point(position, x, y).catch(showError),
      opened: (position) => this.#open(position).catch(showError),
    });
    const controls = { choice: byId("colour-by"), nClusters: byId("n-clusters"), legend: byId("legend") };
    this.#colouring = new Colouring(api, path, project, this.#map, controls, () => this.refresh());
    this.#neighbors = new NeighborsPanel(api, path, byId("neighbors"), this.#map);
    this.#timeline = new TimelineView(byId("timeline"), byId("timeline-table"), byId("timeline-as-table"));
    this.#features = new FeaturesView(project, byId("features"), byId("features-hint"));
    this.#pairQueue = new PairQueue(api, project, path, sendQueue, {
      show: (shown) => this.#show(shown),
      wait: () => this.#wait(),
      noPair: (error) => this.#showNoPair(error),
      announce,
    });
    if (project.transitive) {
      this.#piles = new PilesPanel(api, project, path, this.mayAnswer, {
        edit: (part, body, label) => this.#edit(part, body, label),
        ask: (left, right) => this.#ask(left, right).catch(showError),
        failed: showError,
      });
    }
    byId("zoom-in").addEventListener("click", () => this.#map.zoomAt(1.6));
    byId("zoom-out").addEventListener("click", () => this.#map.zoomAt(1 / 1.6));
    byId("zoom-all").addEventListener("click", () => this.#map.showAll());
    this.#setSeq(project.seq);
    byId("n-answers").textContent = project.n_answers.toLocaleString("en");
  }

  get mayAnswer() {
    return this.#project.permission !== "read";
  }

  run() {
    if (this.mayAnswer) this.#pairQueue.begin();
    else {
      byId("answers").hidden = true;
      this.#showNoPair(new Error("You may view this project, but not answer."));
    }
    this.refresh();
    const stream = new EventStream(this.#api, `${this.#path}/events`, this.#project.seq, {
      state: (name) => this.#setConnection(name),
      hello: (data) => this.#hello(data),
      entries: (entries) => this.#entries(entries),
      learned: (data) => {
        if (data.seq !== Number(document.body.dataset.learned)) this.refresh();
      },
      items: () => {
        this.#items.clear();
        if (this.mayAnswer) this.#pairQueue.begin();
        this.refresh();
      },
      people: ({ people }) => {
        this.#watching = people;
        this.#showConnection();
      },
      error: showError,
    });
    setInterval(() => this.#showConnection(), 30_000);
    return stream.run();
  }

  answer(answer) {
    if (this.mayAnswer) this.#pairQueue.answer(answer);
  }

  undo() {
    if (this.mayAnswer) this.#pairQueue.undo();
  }

  async #edit(part, body, label) {
    const response = await this.#pairQueue.edit(part, body, label);
    if (response) announce(`Saved: ${label}.`);
    return response;
  }

  /** Asks about a given pair, and moves the focus to the question. */
  async #ask(left, right) {
    await this.#pairQueue.ask(left, right);
    byId("question").scrollIntoView({ block: "nearest" });
    byId("question").focus({ preventScroll: true });
    announce("The pair is shown as the question.");
  }

  repaint() {
    this.#colouring.paint();
    this.#timeline.draw();
    this.#features.draw();
  }

  refresh = coalesce(() => this.#refresh().catch(showError), REFRESH_PAUSE);

  async #refresh() {
    const [map, timeline, metric, pilesSeq] = await Promise.all([
      this.#api.get(`${this.#path}/map`, { clusters: this.#colouring.clustersWanted }),
      this.#api.get(`${this.#path}/timeline`),
      this.#api.get(`${this.#path}/metric`),
      this.#piles?.refresh(),
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
    this.#showAccuracy(metric, timeline);
    await this.#neighbors.refresh();
    // The responses may differ in seq; the page is up to date only with the oldest of them.
    document.body.dataset.learned = String(Math.min(map.seq, timeline.seq, metric.seq, pilesSeq ?? map.seq));
  }

  #showAccuracy({ n_answers }, { n_answers: answers, accuracy, random_pairs: random }) {
    byId("n-answers").textContent = n_answers.toLocaleString("en");
    let [nPredicted, nCorrect] = [0, 0];
    for (let row = answers.length - 1; row >= 0 && nPredicted < N_RECENT; row--) {
      const n = answers[row] - (answers[row - 1] ?? 0);
      [nPredicted, nCorrect] = [nPredicted + n, nCorrect + n * accuracy[row]];
    }
    byId("recent-accuracy").textContent = nPredicted ? `${Math.round(nCorrect)} of ${nPredicted}` : "–";
    const share = random.n >= MIN_FOR_PERCENT ? formatPercent(random.n_correct / random.n) : random.n_correct;
    byId("random-accuracy").textContent = random.n ? `${share} of ${random.n}` : "–";
  }

  #wait() {
    byId("pair").setAttribute("aria-busy", "true");
    this.#enableAnswers(false);
  }

  /** Enables or disables the answers; the one that had the focus gets it back when they are enabled. */
  #enableAnswers(enabled) {
    const buttons = [...document.querySelectorAll("[data-answer]")];
    if (!enabled) this.#focused = buttons.find((button) => button === document.activeElement) ?? this.#focused;
    for (const button of buttons) button.disabled = !enabled;
    if (!enabled) return;
    if (document.activeElement === document.body) this.#focused?.focus({ preventScroll: true });
    this.#focused = null;
  }

  #show({ pair, elements }) {
    this.#enableAnswers(true);
    const frame = byId("pair");
    frame.replaceChildren(...elements);
    frame.dataset.display = this.#project.display;
    frame.removeAttribute("aria-busy");
    byId("mark-option").hidden = !frame.querySelector("mark, .difference");
    byId("reason").textContent = pair.reason;
    byId("no-question").hidden = true;
    frame.hidden = false;
    this.#map.pair = [pair.left.position, pair.right.position];
  }

  /** Shows why there is no pair. */
  #showNoPair(error) {
    this.#enableAnswers(false);
    byId("pair").hidden = true;
    byId("mark-option").hidden = true;
    byId("reason").textContent = "";
    byId("no-question").hidden = false;
    byId("no-question").textContent =
      error instanceof Unreachable
        ? `${error.message} The next pair is shown when the connection is restored.`
        : sentence(error.message);
    this.#map.pair = [];
  }

  async #point(position, x, y) {
    const tooltip = byId("tooltip");
    this.#colouring.point(position, async (at) => (await this.#items.at(at)).id).catch(showError);
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
      if (document.activeElement === byId("map-marks")) announce(`${item.id}${item.text ? `: ${item.text}` : ""}`);
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

  // Events.

  #hello({ seq, people }) {
    this.#watching = people;
    this.#showConnection();
    // A log that has become shorter was restored from a backup.
    if (seq < Number(document.body.dataset.seq)) location.reload();
    this.#sendQueue.retryNow();
    if (this.mayAnswer) this.#pairQueue.begin();
    this.refresh();
  }

  #entries(entries) {
    this.#setSeq(entries.at(-1).seq);
    document.body.dataset.received = String(Number(document.body.dataset.received) + entries.length);
    for (const { person, at } of entries) {
      // With tokens, the name is preceded by that of the token.
      const name = person.split("/").at(-1);
      if (name && name !== personName()) this.#answering.set(person, at);
    }
    this.#showConnection();
  }

  #setSeq(seq) {
    document.body.dataset.seq = String(seq);
  }

  #setConnection(name) {
    this.#connection = name;
    document.body.dataset.connection = name;
    this.#showConnection();
  }

  #showConnection() {
    const recent = [...this.#answering].filter(([, at]) => Date.now() - at < PRESENCE).map(([person]) => person);
    const others = this.#watching - 1;
    const companions = others === 1 && recent.length === 1 ? recent[0] : count(others, "other");
    const text = this.#connection === "live" ? (others > 0 ? `Live, with ${companions}` : "Live") : "Reconnecting";
    byId("connection").title = recent.length ? `Answered in the last minutes: ${recent.join(", ")}` : "";
    if (byId("connection-text").textContent !== text) byId("connection-text").textContent = text;
  }
}
