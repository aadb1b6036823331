// The page of a project: connects its panels, the pairs and the event stream.

import { RequestError, Unreachable } from "./api.js";
import { Colouring } from "./map-colouring.js";
import { byId, coalesce, element } from "./dom.js";
import { EventStream } from "./events.js";
import { FeaturesView } from "./features.js";
import { ItemCache, itemSummary } from "./items.js";
import { ItemMap } from "./map.js";
import { NeighborsPanel } from "./neighbors.js";
import { announce, sentence, showError, showMessage } from "./messages.js";
import { formatNumber, formatPercent } from "./numbers.js";
import { nameOf, openFeatures } from "./pair-view.js";
import { personName } from "./person-name.js";
import { PairQueue } from "./pair-queue.js";
import { PilesPanel } from "./piles.js";
import { questionOf } from "./question-words.js";
import { RandomPairsView } from "./random-pairs.js";
import { reasonFor } from "./reasons.js";
import { TimelineView } from "./timeline.js";
import { checkVersion } from "./version.js";
import { say } from "./words.js";

// The shortest time between two updates of the panels, in milliseconds.
const REFRESH_PAUSE = 250;
// The number of answers in the recent accuracy.
const N_RECENT = 20;
// The accuracy on fewer pairs is shown as a count.
const MIN_FOR_PERCENT = 20;
// Milliseconds for which the name of another person is shown after an answer.
const PRESENCE = 5 * 60_000;

// A pair needs two items.
const MIN_ITEMS = 2;

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** Returns sentences about why there is no pair, and what to do. */
function whatToDo(error, nItems) {
  if (error === null) return [say("no-pair.reader"), say("no-pair.reader-do")];
  if (error instanceof Unreachable) return [error.message, say("no-pair.unreachable-do")];
  if (error instanceof RequestError && error.code === "nothing_to_ask") {
    const kind = nItems < MIN_ITEMS ? "few" : "done";
    return [say(`no-pair.${kind}`), say(`no-pair.${kind}-do`)];
  }
  return [sentence(error.message)];
}

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
  #randomPairs = new RandomPairsView(byId("random-pairs"));
  #watching = 1;
  #answering = new Map();
  #connection = "starting";
  #connected = false;
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
      unused: (n) => n && showMessage(say("typed.unused", { n })),
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
    byId("n-answers").textContent = formatNumber(project.n_answers);
    this.#showQuestion(project);
    new ResizeObserver(() => this.#fitFrame()).observe(byId("pair-frame"));
  }

  /** Shows the question and the guidelines in the words of the project; lists of projects have no guidelines. */
  #showQuestion({ question, guidelines }) {
    // The service's own default is translated.
    byId("question-title").textContent = questionOf({ question });
    byId("guidelines").hidden = !guidelines;
    byId("guidelines-text").textContent = guidelines ?? "";
  }

  get mayAnswer() {
    return this.#project.permission !== "read";
  }

  run() {
    if (this.mayAnswer) this.#pairQueue.begin();
    else {
      byId("answers").hidden = true;
      this.#showNoPair(null);
    }
    this.refresh();
    this.#api
      .get(this.#path)
      .then((project) => this.#showQuestion(project))
      .catch(showError);
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
    if (response) announce(say("saved", { change: label }));
    return response;
  }

  /** Asks about a given pair, and moves the focus to the question. */
  async #ask(left, right) {
    await this.#pairQueue.ask(left, right);
    byId("question").scrollIntoView({ block: "nearest" });
    byId("question").focus({ preventScroll: true });
    announce(say("asked"));
  }

  repaint() {
    this.#colouring.paint();
    this.#timeline.draw();
    this.#features.draw();
    this.#randomPairs.draw();
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
      say("map.describe", { items: say("items", { n: map.n_items }), answers: say("answers", { n: metric.n_answers }) }),
    );
    this.#timeline.update(timeline);
    this.#features.update(metric);
    this.#showAccuracy(metric, timeline);
    await this.#neighbors.refresh();
    // The responses may differ in seq; the page is up to date only with the oldest of them.
    document.body.dataset.learned = String(Math.min(map.seq, timeline.seq, metric.seq, pilesSeq ?? map.seq));
  }

  #showAccuracy({ n_answers }, { n_answers: answers, accuracy, random_pairs: random }) {
    byId("n-answers").textContent = formatNumber(n_answers);
    let [nPredicted, nCorrect] = [0, 0];
    for (let row = answers.length - 1; row >= 0 && nPredicted < N_RECENT; row--) {
      const n = answers[row] - (answers[row - 1] ?? 0);
      [nPredicted, nCorrect] = [nPredicted + n, nCorrect + n * accuracy[row]];
    }
    byId("recent-accuracy").textContent = nPredicted ? say("figures.of", { part: Math.round(nCorrect), all: nPredicted }) : "–";
    const share = random.n >= MIN_FOR_PERCENT ? formatPercent(random.n_correct / random.n) : random.n_correct;
    byId("random-accuracy").textContent = random.n ? say("figures.of", { part: share, all: random.n }) : "–";
    this.#randomPairs.update(random);
  }

  #wait() {
    // The answers stay enabled: those that come early wait for their pair.
    byId("pair").setAttribute("aria-busy", "true");
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
    frame.dataset.display = frame.querySelector("article .picture") ? "picture" : "text";
    frame.removeAttribute("aria-busy");
    openFeatures(frame);
    this.#fitFrame();
    byId("mark-option").hidden = !frame.querySelector("mark, .difference");
    byId("reason").textContent = reasonFor(pair);
    byId("no-question").hidden = true;
    frame.hidden = false;
    this.#map.pair = [pair.left.position, pair.right.position];
  }

  /** Lets the keyboard scroll a pair that does not fit. */
  #fitFrame() {
    const frame = byId("pair-frame");
    if (frame.scrollHeight > frame.clientHeight + 1) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  }

  /** Shows why there is no pair, and what to do; error null: the person may not answer. */
  #showNoPair(error) {
    this.#enableAnswers(false);
    byId("pair").hidden = true;
    byId("mark-option").hidden = true;
    byId("reason").textContent = "";
    byId("no-question").hidden = false;
    byId("no-question").replaceChildren(...whatToDo(error, this.#project.n_items).map((text) => element("p", {}, text)));
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
      if (document.activeElement === byId("map-marks")) announce(say("map.item", { item: [nameOf(item), item.text ?? ""].join(" ").trim() }));
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
    // After a lost connection the service may be another version.
    if (this.#connected) checkVersion(this.#api).catch(() => {});
    this.#connected = true;
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
    const companions = others === 1 && recent.length === 1 ? recent[0] : say("connection.others", { n: others });
    const live = others > 0 ? say("connection.live-with", { companions }) : say("connection.live");
    const text = this.#connection === "live" ? live : say("connection.lost");
    byId("connection").title = recent.length ? say("connection.recent", { people: recent.join(", ") }) : "";
    if (byId("connection-text").textContent !== text) byId("connection-text").textContent = text;
  }
}
