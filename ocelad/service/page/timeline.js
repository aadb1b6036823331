// Charts of the loss, the drift of the metric and the weights of the experts over the answers.

import uPlot from "./vendor/uPlot.esm.js";
import { css, element, formatNumber, formatPercent, themeColour } from "./dom.js";
import { palette } from "./palette.js";

const HEIGHT = 130;
// The axis of answers has only whole numbers.
const WHOLE_STEPS = Array.from({ length: 10 }, (_, k) => [1, 2, 5].map((step) => step * 10 ** k)).flat();
// The weight of a new value in the moving average, which adapts within about a dozen answers.
const SMOOTHING = 0.15;

/** Returns the exponential moving average of values, which starts at the first one. */
function smooth(values) {
  let average = values[0];
  return values.map((value) => (average += SMOOTHING * (value - average)));
}

/** Describes the accuracy of a row; in a long stream a row covers several answers. */
function describeAccuracy(accuracy) {
  if (accuracy === 0 || accuracy === 1) return accuracy ? "predicted correctly" : "predicted incorrectly";
  return `${formatPercent(accuracy)} predicted correctly`;
}

/** Returns the name of an expert; those of the method "rice" are scales, named by their interval length. */
function expertName({ method, experts }, k) {
  return method === "rice" ? `scale ${experts[k]}` : experts[k];
}

export class TimelineView {
  #frame;
  #table;
  #charts = [];
  #data = null;

  constructor(frame, table, asTable) {
    [this.#frame, this.#table] = [frame, table];
    asTable.addEventListener("change", () => {
      table.hidden = !asTable.checked;
      frame.hidden = asTable.checked;
      this.draw();
    });
    new ResizeObserver(() => this.#fit()).observe(frame);
  }

  update(data) {
    const sameCharts = this.#data && data.n_answers.length && this.#data.experts.length === data.experts.length;
    this.#data = data;
    this.#table.dataset.rows = String(data.n_answers.length);
    if (!sameCharts || !this.#charts.length) {
      this.draw();
      return;
    }
    // The charts are updated in place, so that the cursor stays.
    if (!this.#table.hidden) this.#drawTable(data);
    this.#describe(data).forEach((update, i) => {
      const chart = Object.assign(this.#charts[i], update);
      chart.figure.querySelector(".hint").textContent = chart.hint;
      chart.plot.setData([data.n_answers, ...chart.data]);
      chart.write();
    });
  }

  draw() {
    const data = this.#data;
    if (!data) return;
    for (const { plot } of this.#charts) plot.destroy();
    this.#charts = [];
    if (!data.n_answers.length) {
      this.#frame.replaceChildren(element("p", { class: "empty" }, "No answers yet. Each answer adds a point."));
      this.#table.replaceChildren();
      return;
    }
    if (!this.#table.hidden) this.#drawTable(data);
    this.#charts = this.#describe(data);
    this.#frame.replaceChildren(...this.#charts.map((chart) => figureElement(chart)));
    for (const chart of this.#charts) this.#plot(chart, data);
  }

  #describe(data) {
    const ink = { accent: themeColour("--same"), second: themeColour("--different"), line: themeColour("--line") };
    return [this.#loss(data, ink), this.#drift(data, ink), this.#experts(data, ink)];
  }

  #loss(data, { accent }) {
    return {
      title: "Loss of each answer",
      hint: "0: as predicted",
      data: [data.loss, smooth(data.loss)],
      series: [
        { points: { show: true, size: 5, fill: css(accent, 0.4), width: 0 }, paths: () => null },
        { stroke: css(accent), width: 2, points: { show: false } },
      ],
      range: (_, low, high) => [0, Math.max(high, 0.1) * 1.05],
      describe: (row) =>
        `Answer ${data.n_answers[row]}: ${formatNumber(data.loss[row])}, ${describeAccuracy(data.accuracy[row])}`,
      last: `Now ${formatNumber(smooth(data.loss).at(-1))}`,
    };
  }

  #drift(data, { second }) {
    const last = data.changes.at(-1);
    return {
      title: "Drift of the metric",
      hint: last
        ? `the meaning of “same” changed near answer ${last.first} (noticed at ${last.detected})`
        : "a peak: the meaning of “same” changed",
      data: [data.drift],
      series: [{ stroke: css(second), fill: css(second, 0.15), width: 1.75, points: { show: false } }],
      range: (_, low, high) => [0, Math.max(high, 0.01) * 1.05],
      describe: (row) => `Answer ${data.n_answers[row]}: ${formatPercent(data.drift[row])} of its size per answer`,
      last: `Now ${formatPercent(data.drift.at(-1))} per answer`,
    };
  }

  /** Stacked areas, the first expert at the bottom. The experts of the method "rice" are scales, the shortest first. */
  #experts(data, { line }) {
    const colours = palette();
    const n = data.experts.length;
    const colourOf = (k) => colours.scale(n > 1 ? k / (n - 1) : 0.5);
    const sums = data.n_answers.map(() => 0);
    const stacked = data.shares.map((shares) => shares.map((share, row) => (sums[row] += share)));
    const leader = (row) =>
      data.shares.reduce((best, shares, k) => (shares[row] > data.shares[best][row] ? k : best), 0);
    const leading = (row) =>
      `${expertName(data, leader(row))} leads with ${formatPercent(data.shares[leader(row)][row])}`;
    const [first, last] = [data.experts[0], data.experts.at(-1)];
    const isRice = data.method === "rice";
    return {
      title: isRice ? "Weights of the scales" : "Weights of the experts",
      hint: isRice
        ? `from ${first} to ${last} answers, the shortest at the bottom`
        : `from ${first}, at the bottom, to ${last}`,
      data: stacked,
      series: stacked.map((_, k) => ({
        stroke: css(line, 0.6),
        width: 0.5,
        fill: k ? undefined : css(colourOf(0)),
        points: { show: false },
      })),
      bands: stacked.slice(1).map((_, k) => ({ series: [k + 2, k + 1], fill: css(colourOf(k + 1)) })),
      range: [0, 1],
      describe: (row) => `Answer ${data.n_answers[row]}: ${leading(row)}`,
      last: `Now: ${leading(data.n_answers.length - 1)}`,
    };
  }

  #plot(chart, data) {
    const [frame, text] = [chart.figure.querySelector(".chart"), chart.figure.querySelector(".chart-text")];
    const [muted, line] = [themeColour("--muted"), themeColour("--line")];
    chart.write = () => {
      const row = chart.plot?.cursor.idx ?? null;
      text.textContent = row === null ? chart.last : chart.describe(row);
    };
    const axis = {
      stroke: css(muted),
      font: "11px system-ui, sans-serif",
      ticks: { show: false },
      grid: { stroke: css(line), width: 1 },
    };
    const options = {
      width: Math.max(frame.clientWidth, 50),
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
        { ...axis, size: 40, space: 28, values: (_, ticks) => ticks.map(formatNumber) },
      ],
      series: [{}, ...chart.series],
      bands: chart.bands ?? [],
      hooks: { setCursor: [() => chart.write()] },
    };
    chart.plot = new uPlot(options, [data.n_answers, ...chart.data], frame);
    chart.write();
  }

  #fit() {
    for (const { plot, figure } of this.#charts) {
      const { clientWidth } = figure.querySelector(".chart");
      if (clientWidth && clientWidth !== plot.width) plot.setSize({ width: clientWidth, height: HEIGHT });
    }
  }

  #drawTable(data) {
    const experts = data.experts.map((_, k) => expertName(data, k).replace(/^./, (letter) => letter.toUpperCase()));
    const columns = ["Answers", "Loss", "Predicted correctly", "Drift", ...experts];
    const rows = data.n_answers.map((answers, row) => [
      answers,
      formatNumber(data.loss[row]),
      formatPercent(data.accuracy[row]),
      formatPercent(data.drift[row]),
      ...data.shares.map((shares) => formatPercent(shares[row])),
    ]);
    this.#table.replaceChildren(
      element(
        "table",
        {},
        element(
          "caption",
          { class: "visually-hidden" },
          "Loss, accuracy, drift and weights of the experts, the latest first",
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

function figureElement(chart) {
  chart.figure = element(
    "figure",
    { class: "chart-figure" },
    element("figcaption", {}, element("h3", {}, chart.title), element("span", { class: "hint" }, chart.hint)),
    element("div", { class: "chart", "aria-hidden": "true" }),
    element("p", { class: "chart-text" }),
  );
  return chart.figure;
}
