// "Is it better than before?": how often the predictions are right on random pairs, beside two simple rules.

import uPlot from "./vendor/uPlot.esm.js";
import { css, element, themeColour } from "./dom.js";
import { formatPercent } from "./numbers.js";
import { say } from "./words.js";

// From fewer pairs nothing can be said.
const MIN_PAIRS = 20;
const HEIGHT = 150;
// The axis of pairs has only whole numbers.
const WHOLE_STEPS = Array.from({ length: 10 }, (_, k) => [1, 2, 5].map((step) => step * 10 ** k)).flat();
const RULES = { learned: "n_correct", commoner: "n_commoner", euclidean: "n_euclidean" };
const COLOURS = { learned: "--same", commoner: "--different", euclidean: "--map-grey" };
const DASHES = { learned: [], commoner: [6, 4], euclidean: [2, 3] };

/** Returns the rules whose counts the service has sent; the learned distance is the first. */
const rulesOf = (pairs) => Object.keys(RULES).filter((rule) => Number.isFinite(pairs[RULES[rule]]));

/** Returns the sentence about the random pairs. */
function describe(pairs) {
  const [, ...others] = rulesOf(pairs);
  const kind = others.length === 2 ? "both" : (others[0] ?? "alone");
  const { n, n_correct: correct, n_commoner: commoner, n_euclidean: euclidean } = pairs;
  return say(`progress.${kind}`, { n, correct, commoner, euclidean });
}

/** Returns the answer to "Is it better than before?" in a few words. */
function verdict(pairs) {
  const [, ...others] = rulesOf(pairs);
  if (pairs.n < MIN_PAIRS) return say("progress.too-early", { n: MIN_PAIRS - pairs.n });
  if (!others.length) return "";
  const best = Math.max(...others.map((rule) => pairs[RULES[rule]]));
  if (pairs.n_correct === best) return say("progress.equal");
  if (pairs.n_correct < best) return say("progress.worse");
  const [own, other] = [pairs.n_correct / pairs.n, best / pairs.n];
  // As if both were right independently of each other; they mostly agree, so that a smaller lead could suffice.
  const standardError = Math.sqrt((own * (1 - own) + other * (1 - other)) / pairs.n);
  return say(own - other > standardError ? "progress.better" : "progress.perhaps");
}

export class RandomPairsView {
  #frame;
  #pairs = null;
  #plot = null;

  constructor(frame) {
    this.#frame = frame;
    new ResizeObserver(() => {
      const width = this.#plot?.root.parentElement.clientWidth;
      if (width && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT });
    }).observe(frame);
  }

  /** pairs: {n, n_correct}, and n_commoner, n_euclidean and course if the service has them. */
  update(pairs) {
    if (JSON.stringify(pairs) === JSON.stringify(this.#pairs)) return;
    this.#pairs = pairs;
    this.draw();
  }

  draw() {
    const pairs = this.#pairs;
    this.#plot?.destroy();
    this.#plot = null;
    if (!pairs) return;
    if (!pairs.n) {
      this.#frame.replaceChildren(element("p", { class: "empty" }, say("progress.empty")));
      return;
    }
    const chart = element("div", { class: "chart", "aria-hidden": "true" });
    const course = rowsWithNewPairs(pairs.course);
    const hasCourse = course.n.length > 1;
    this.#frame.replaceChildren(
      element("p", { class: "verdict-line" }, verdict(pairs)),
      bars(pairs),
      element("p", { class: "progress-sentence" }, describe(pairs)),
      hasCourse ? element("h3", { class: "course-title" }, say("progress.course")) : "",
      hasCourse ? chart : "",
    );
    if (hasCourse) this.#plot = plotCourse(course, chart);
  }
}

/** Returns the rows of a course that have a further random pair: {n, n_correct, ...}, lists of equal length. */
function rowsWithNewPairs(course) {
  const n = course?.n ?? [];
  const rows = n.map((_, row) => row).filter((row) => n[row] > (n[row - 1] ?? 0));
  const known = Object.entries(course ?? {}).filter(([, counts]) => counts.length === n.length);
  return { n: [], ...Object.fromEntries(known.map(([name, counts]) => [name, rows.map((row) => counts[row])])) };
}

function bars(pairs) {
  const rows = rulesOf(pairs).map((rule) => {
    const share = pairs[RULES[rule]] / pairs.n;
    const bar = element("span", { class: "bar wide", "aria-hidden": "true" }, element("span", { class: "fill" }));
    bar.firstChild.style.width = `${100 * share}%`;
    bar.firstChild.style.background = css(themeColour(COLOURS[rule]));
    return element(
      "li",
      {},
      element("span", { class: "bar-name" }, say(`progress.bar-${rule}`)),
      bar,
      element("span", { class: "bar-number" }, formatPercent(share)),
    );
  });
  return element("ul", { class: "progress-bars" }, rows);
}

/** Draws the share of right predictions after each random pair, of all rules, in the colours of the bars. */
function plotCourse(course, frame) {
  const rules = Object.keys(RULES).filter((rule) => course[RULES[rule]]?.length === course.n.length);
  const [muted, line] = [themeColour("--muted"), themeColour("--line")];
  const axis = { stroke: css(muted), font: "11px system-ui, sans-serif", ticks: { show: false } };
  const options = {
    width: Math.max(frame.clientWidth, 50),
    height: HEIGHT,
    padding: [8, 14, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: (_, low, high) => [Math.min(low, 1), Math.max(high, 10)] },
      y: { range: [0, 1.02] },
    },
    axes: [
      { ...axis, size: 22, grid: { show: false }, space: 40, incrs: WHOLE_STEPS },
      { ...axis, size: 44, space: 28, grid: { stroke: css(line), width: 1 }, values: (_, ticks) => ticks.map(formatPercent) },
    ],
    series: [
      {},
      ...rules.map((rule) => ({
        stroke: css(themeColour(COLOURS[rule])),
        width: rule === "learned" ? 2.5 : 1.5,
        dash: DASHES[rule],
        points: { show: false },
      })),
    ],
  };
  const shares = rules.map((rule) => course[RULES[rule]].map((count, row) => count / course.n[row]));
  return new uPlot(options, [course.n, ...shares], frame);
}
