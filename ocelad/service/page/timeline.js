// Charts over the answers: how often predictions were right, how much the distance changed, and where the predictions
// come from.

import uPlot from "./vendor/uPlot.esm.js";
import { css, element, themeColour } from "./dom.js";
import { formatPercent } from "./numbers.js";
import { palette } from "./palette.js";
import { predictionSources } from "./prediction-sources.js";
import { say } from "./words.js";

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
  if (accuracy === 0 || accuracy === 1) return say(accuracy ? "history.right" : "history.wrong");
  return say("history.share-right", { share: formatPercent(accuracy) });
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
    data = { ...data, sources: predictionSources(data) };
    const names = ({ sources }) => sources.map(({ name }) => name).join();
    const sameCharts = this.#data && data.n_answers.length && names(this.#data) === names(data);
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
      this.#frame.replaceChildren(element("p", { class: "empty" }, say("history.empty")));
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
    return [this.#accuracy(data, ink), this.#drift(data, ink), this.#sources(data, ink)];
  }

  #accuracy(data, { accent }) {
    const smoothed = smooth(data.accuracy);
    return {
      title: say("history.accuracy"),
      hint: say("history.accuracy-hint"),
      data: [data.accuracy, smoothed],
      series: [
        { points: { show: true, size: 5, fill: css(accent, 0.4), width: 0 }, paths: () => null },
        { stroke: css(accent), width: 2, points: { show: false } },
      ],
      range: [0, 1.05],
      describe: (row) =>
        say("history.answer", { number: data.n_answers[row], text: describeAccuracy(data.accuracy[row]) }),
      last: say("history.accuracy-now", { share: formatPercent(smoothed.at(-1)) }),
    };
  }

  #drift(data, { second }) {
    const last = data.changes.at(-1);
    return {
      title: say("history.drift"),
      hint: last ? say("history.changed", { first: last.first, detected: last.detected }) : say("history.drift-hint"),
      data: [data.drift],
      series: [{ stroke: css(second), fill: css(second, 0.15), width: 1.75, points: { show: false } }],
      range: (_, low, high) => [0, Math.max(high, 0.01) * 1.05],
      describe: (row) => say("history.answer", { number: data.n_answers[row], text: formatPercent(data.drift[row]) }),
      last: say("history.drift-now", { share: formatPercent(data.drift.at(-1)) }),
    };
  }

  /** Stacked areas, the first source at the bottom. */
  #sources(data, { line }) {
    const colours = palette();
    const { sources } = data;
    const colourOf = (k) => colours.scale(sources.length > 1 ? k / (sources.length - 1) : 0.5);
    const sums = data.n_answers.map(() => 0);
    const stacked = sources.map(({ shares }) => shares.map((share, row) => (sums[row] += share)));
    const leading = (row) => {
      const [{ name, shares }] = [...sources].sort((one, other) => other.shares[row] - one.shares[row]);
      return say("history.mostly", { source: name, share: formatPercent(shares[row]) });
    };
    return {
      title: say("history.sources"),
      hint: "",
      legend: sources.map(({ name }, k) => [name, css(colourOf(k))]),
      data: stacked,
      series: stacked.map((_, k) => ({
        stroke: css(line, 0.6),
        width: 0.5,
        fill: k ? undefined : css(colourOf(0)),
        points: { show: false },
      })),
      bands: stacked.slice(1).map((_, k) => ({ series: [k + 2, k + 1], fill: css(colourOf(k + 1)) })),
      range: [0, 1],
      describe: (row) => say("history.answer", { number: data.n_answers[row], text: leading(row) }),
      last: say("history.now", { text: leading(data.n_answers.length - 1) }),
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
        { ...axis, size: 40, space: 28, values: (_, ticks) => ticks.map(formatPercent) },
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
    const columns = [say("history.answers"), say("history.accuracy"), say("history.drift")].concat(
      data.sources.map(({ name }) => name),
    );
    const rows = data.n_answers.map((answers, row) => [
      answers,
      formatPercent(data.accuracy[row]),
      formatPercent(data.drift[row]),
      ...data.sources.map(({ shares }) => formatPercent(shares[row])),
    ]);
    this.#table.replaceChildren(
      element(
        "table",
        {},
        element("caption", { class: "visually-hidden" }, say("history.caption")),
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
  const legend = (chart.legend ?? []).map(([name, colour]) => {
    const swatch = element("span", { class: "swatch" });
    swatch.style.background = colour;
    return element("span", { class: "chart-key" }, swatch, name);
  });
  chart.figure = element(
    "figure",
    { class: "chart-figure" },
    element("figcaption", {}, element("h3", {}, chart.title), element("span", { class: "hint" }, chart.hint)),
    element("div", { class: "chart", "aria-hidden": "true" }),
    legend.length ? element("div", { class: "chart-keys" }, legend) : [],
    element("p", { class: "chart-text" }),
  );
  return chart.figure;
}
