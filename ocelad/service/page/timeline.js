// How it was learned, answer by answer: what was lost, how fast the metric moved, and which scale led.

import uPlot from "./vendor/uPlot.esm.js";
import { css, element, percent, short, themeColour } from "./dom.js";
import { palette } from "./colours.js";

const HEIGHT = 130;
// Answers are counted: their axis has whole numbers only.
const WHOLE_STEPS = Array.from({ length: 10 }, (_, k) => [1, 2, 5].map((step) => step * 10 ** k)).flat();
// A short memory: the line should turn within a dozen answers when the notion of similarity does.
const MEMORY = 0.15;

/** A line through dots: what came lately counts most, and it starts at the first dot. */
function smoothed(values) {
  let line = values[0];
  return values.map((value) => (line += MEMORY * (value - line)));
}

/** In a long stream a row stands for several answers. */
function judged(right) {
  if (right === 0 || right === 1) return right ? "judged right" : "judged wrong";
  return `${percent(right)} judged right`;
}

export class TimelineView {
  #frame;
  #table;
  #charts = [];
  #told = null;

  constructor(frame, table, asTable) {
    [this.#frame, this.#table] = [frame, table];
    asTable.addEventListener("change", () => {
      table.hidden = !asTable.checked;
      frame.hidden = asTable.checked;
      this.draw();
    });
    new ResizeObserver(() => this.#fit()).observe(frame);
  }

  update(told) {
    const alike = this.#told && told.n_answers.length && this.#told.scales.length === told.scales.length;
    this.#told = told;
    this.#table.dataset.rows = String(told.n_answers.length);
    if (!alike || !this.#charts.length) {
      this.draw();
      return;
    }
    // The same charts with more in them, so that one can go on pointing at them.
    if (!this.#table.hidden) this.#drawTable(told);
    this.#describe(told).forEach((fresh, i) => {
      const chart = Object.assign(this.#charts[i], fresh);
      chart.plot.setData([told.n_answers, ...chart.data]);
      chart.write();
    });
  }

  draw() {
    const told = this.#told;
    if (!told) return;
    for (const { plot } of this.#charts) plot.destroy();
    this.#charts = [];
    if (!told.n_answers.length) {
      this.#frame.replaceChildren(element("p", { class: "empty" }, "Nothing yet. Each answer adds a dot here."));
      this.#table.replaceChildren();
      return;
    }
    if (!this.#table.hidden) this.#drawTable(told);
    this.#charts = this.#describe(told);
    this.#frame.replaceChildren(...this.#charts.map((chart) => figureOf(chart)));
    for (const chart of this.#charts) this.#plot(chart, told);
  }

  #describe(told) {
    const ink = { accent: themeColour("--same"), second: themeColour("--different"), line: themeColour("--line") };
    return [this.#loss(told, ink), this.#moved(told, ink), this.#scales(told, ink)];
  }

  #loss(told, { accent }) {
    return {
      title: "How surprising each answer was",
      hint: "0: as expected",
      data: [told.loss, smoothed(told.loss)],
      series: [
        { points: { show: true, size: 5, fill: css(accent, 0.4), width: 0 }, paths: () => null },
        { stroke: css(accent), width: 2, points: { show: false } },
      ],
      range: (_, low, high) => [0, Math.max(high, 0.1) * 1.05],
      say: (row) => `Answer ${told.n_answers[row]}: ${short(told.loss[row])}, ${judged(told.accuracy[row])}`,
      last: `Now ${short(smoothed(told.loss).at(-1))}`,
    };
  }

  #moved(told, { second }) {
    return {
      title: "How fast the metric moves",
      hint: "a peak: the notion changed",
      data: [told.drift],
      series: [{ stroke: css(second), fill: css(second, 0.15), width: 1.75, points: { show: false } }],
      range: (_, low, high) => [0, Math.max(high, 0.01) * 1.05],
      say: (row) => `Answer ${told.n_answers[row]}: ${percent(told.drift[row])} of its size`,
      last: `Now ${percent(told.drift.at(-1))} an answer`,
    };
  }

  /** Stacked areas, the shortest memory at the bottom. */
  #scales(told, { line }) {
    const colours = palette();
    const n = told.scales.length;
    const colourOf = (k) => colours.scale(n > 1 ? k / (n - 1) : 0.5);
    const sums = told.n_answers.map(() => 0);
    const stacked = told.shares.map((shares) => shares.map((share, row) => (sums[row] += share)));
    const leader = (row) =>
      told.shares.reduce((best, shares, k) => (shares[row] > told.shares[best][row] ? k : best), 0);
    const leading = (row) =>
      `memory of ${told.scales[leader(row)]} leads with ${percent(told.shares[leader(row)][row])}`;
    return {
      title: "How long a memory it uses",
      hint: `from ${told.scales[0]} to ${told.scales.at(-1)} answers, the shortest below`,
      data: stacked,
      series: stacked.map((_, k) => ({
        stroke: css(line, 0.6),
        width: 0.5,
        fill: k ? undefined : css(colourOf(0)),
        points: { show: false },
      })),
      bands: stacked.slice(1).map((_, k) => ({ series: [k + 2, k + 1], fill: css(colourOf(k + 1)) })),
      range: [0, 1],
      say: (row) => `Answer ${told.n_answers[row]}: ${leading(row)}`,
      last: `Now: ${leading(told.n_answers.length - 1)}`,
    };
  }

  #plot(chart, told) {
    const [place, words] = [chart.figure.querySelector(".chart"), chart.figure.querySelector(".chart-words")];
    const [muted, line] = [themeColour("--muted"), themeColour("--line")];
    chart.write = () => {
      const row = chart.plot?.cursor.idx ?? null;
      words.textContent = row === null ? chart.last : chart.say(row);
    };
    const axis = {
      stroke: css(muted),
      font: "11px system-ui, sans-serif",
      ticks: { show: false },
      grid: { stroke: css(line), width: 1 },
    };
    const options = {
      width: Math.max(place.clientWidth, 50),
      height: HEIGHT,
      padding: [8, 14, 0, 0],
      legend: { show: false },
      cursor: { y: false, sync: { key: "timeline" }, drag: { setScale: false }, points: { show: false } },
      scales: {
        x: { time: false, range: (_, low, high) => [Math.min(low, 1), Math.max(high, 10)] },
        y: { range: chart.range },
      },
      axes: [
        { ...axis, size: 22, grid: { show: false }, space: 40, incrs: WHOLE_STEPS },
        { ...axis, size: 40, space: 28, values: (_, ticks) => ticks.map(short) },
      ],
      series: [{}, ...chart.series],
      bands: chart.bands ?? [],
      hooks: { setCursor: [() => chart.write()] },
    };
    chart.plot = new uPlot(options, [told.n_answers, ...chart.data], place);
    chart.write();
  }

  #fit() {
    for (const { plot, figure } of this.#charts) {
      const { clientWidth } = figure.querySelector(".chart");
      if (clientWidth && clientWidth !== plot.width) plot.setSize({ width: clientWidth, height: HEIGHT });
    }
  }

  #drawTable(told) {
    const columns = ["Answers", "Loss", "Judged right", "Moved", ...told.scales.map((length) => `Memory ${length}`)];
    const rows = told.n_answers.map((answers, row) => [
      answers,
      short(told.loss[row]),
      percent(told.accuracy[row]),
      percent(told.drift[row]),
      ...told.shares.map((shares) => percent(shares[row])),
    ]);
    this.#table.replaceChildren(
      element(
        "table",
        {},
        element(
          "caption",
          { class: "for-ears" },
          "How surprising each answer was, and what it changed; the latest first",
        ),
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            columns.map((name) => element("th", { scope: "col" }, name)),
          ),
        ),
        element(
          "tbody",
          {},
          rows.reverse().map(([first, ...rest]) =>
            element(
              "tr",
              {},
              element("th", { scope: "row" }, String(first)),
              rest.map((cell) => element("td", {}, cell)),
            ),
          ),
        ),
      ),
    );
  }
}

function figureOf(chart) {
  chart.figure = element(
    "figure",
    { class: "chart-figure" },
    element("figcaption", {}, element("h3", {}, chart.title), element("span", { class: "hint" }, chart.hint)),
    element("div", { class: "chart", "aria-hidden": "true" }),
    element("p", { class: "chart-words" }),
  );
  return chart.figure;
}
