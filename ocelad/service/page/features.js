// The shares of the features in the squared distances between items, now and before learning.

import { css, element } from "./dom.js";
import { formatPercent } from "./numbers.js";
import { pixelGrid } from "./pixel-grid.js";
import { palette } from "./palette.js";
import { say } from "./words.js";

const MAX_BARS = 15;
// Shares of features that are correlated with others can be negative; they have no bar.
const positive = (share) => Math.max(share, 0);
const describe = (name, share, initialShare) =>
  say("shares.describe", { name, share: formatPercent(share), before: formatPercent(initialShare) });

export class FeaturesView {
  #frame;
  #hint;
  #grid;
  #features = [];
  #listOpen = false;

  constructor(project, frame, hint) {
    [this.#frame, this.#hint] = [frame, hint];
    this.#grid = project.display === "picture" ? pixelGrid(project.feature_names) : null;
  }

  update({ features, n_answers: answers }) {
    this.#features = features;
    const learned = this.#grid ? "shares.hint-pixels" : "shares.hint-features";
    this.#hint.textContent = say(answers ? learned : "shares.hint-none");
    this.draw();
  }

  draw() {
    if (!this.#features.length) return;
    const bars = this.#bars();
    if (!this.#grid) {
      this.#frame.replaceChildren(bars);
      return;
    }
    const top = Math.max(...this.#features.flatMap(({ share, initial_share }) => [share, initial_share]), 1e-300);
    const list = element(
      "details",
      {},
      element("summary", {}, say("shares.list", { n: Math.min(MAX_BARS, this.#features.length) })),
      bars,
    );
    list.open = this.#listOpen;
    list.addEventListener("toggle", () => (this.#listOpen = list.open));
    this.#frame.replaceChildren(
      element(
        "div",
        { class: "heat-maps" },
        this.#heatMap(say("shares.before"), "initial_share", top),
        this.#heatMap(say("shares.now"), "share", top),
      ),
      list,
    );
  }

  #bars() {
    const shown = this.#features.slice(0, MAX_BARS);
    const top = Math.max(...shown.flatMap(({ share, initial_share }) => [share, initial_share]), 1e-300);
    const rows = shown.map(({ name, share, initial_share }) => {
      const bar = element(
        "span",
        { class: "bar wide", "aria-hidden": "true" },
        element("span", { class: "fill" }),
        element("span", { class: "initial-share" }),
      );
      bar.children[0].style.width = `${(100 * positive(share)) / top}%`;
      bar.children[1].style.left = `${(100 * initial_share) / top}%`;
      return element(
        "li",
        { title: describe(name, share, initial_share) },
        element("span", { class: "feature-name" }, name),
        bar,
        element(
          "span",
          { class: "feature-share" },
          formatPercent(share),
          element("span", { class: "visually-hidden" }, ` ${say("shares.now-and-before", { before: formatPercent(initial_share) })}`),
        ),
      );
    });
    return element("ol", { class: "feature-bars" }, rows);
  }

  #heatMap(title, key, top) {
    const { rows, columns, cells } = this.#grid;
    const features = new Map(this.#features.map((feature) => [feature.name, feature]));
    const canvas = element("canvas", {
      width: columns,
      height: rows,
      class: "heat-map",
      role: "img",
      "aria-label": say("shares.heat-map", { title }),
    });
    const context = canvas.getContext("2d");
    const colours = palette();
    for (const { name, row, column } of cells) {
      // The square root makes differences of small shares visible.
      context.fillStyle = css(colours.scale(Math.sqrt(positive(features.get(name)?.[key] ?? 0) / top)));
      context.fillRect(column, row, 1, 1);
    }
    canvas.addEventListener("pointermove", (event) => {
      const { left, top: above, width, height } = canvas.getBoundingClientRect();
      const indexOf = (share, n) => Math.min(Math.max(Math.floor(share * n), 0), n - 1);
      const [row, column] = [
        indexOf((event.clientY - above) / height, rows),
        indexOf((event.clientX - left) / width, columns),
      ];
      const { name } = cells[row * columns + column];
      const feature = features.get(name);
      canvas.title = feature ? describe(name, feature.share, feature.initial_share) : say("shares.little", { name });
    });
    return element("figure", {}, canvas, element("figcaption", {}, title));
  }
}
