// Which features the metric weighs now, beside what they would weigh if nothing had been learned.

import { css, element, percent } from "./dom.js";
import { gridOf } from "./grid.js";
import { palette } from "./colours.js";

const MOST_BARS = 15;

export class FeaturesView {
  #frame;
  #hint;
  #grid;
  #features = [];
  #listOpen = false;

  constructor(project, frame, hint) {
    [this.#frame, this.#hint] = [frame, hint];
    this.#grid = project.display === "picture" ? gridOf(project.feature_names) : null;
  }

  update({ features, n_answers: answers }) {
    this.#features = features;
    const learned = this.#grid
      ? "Each pixel's share of the distance between items."
      : "Shares of the distance between items; a line marks where each was before learning.";
    this.#hint.textContent = answers ? learned : "Nothing is learned yet: each counts by how much it varies.";
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
      element("summary", {}, `The ${Math.min(MOST_BARS, this.#features.length)} heaviest as a list`),
      bars,
    );
    list.open = this.#listOpen;
    list.addEventListener("toggle", () => (this.#listOpen = list.open));
    this.#frame.replaceChildren(
      element(
        "div",
        { class: "heat-maps" },
        this.#heatMap("Before learning", "initial_share", top),
        this.#heatMap("Now", "share", top),
      ),
      list,
    );
  }

  #bars() {
    const shown = this.#features.slice(0, MOST_BARS);
    const top = Math.max(...shown.flatMap(({ share, initial_share }) => [share, initial_share]), 1e-300);
    const rows = shown.map(({ name, share, initial_share }) => {
      const bar = element(
        "span",
        { class: "bar wide", "aria-hidden": "true" },
        element("span", { class: "fill" }),
        element("span", { class: "before" }),
      );
      bar.children[0].style.width = `${(100 * share) / top}%`;
      bar.children[1].style.left = `${(100 * initial_share) / top}%`;
      return element(
        "li",
        { title: `${name}: ${percent(share)} now, ${percent(initial_share)} before learning` },
        element("span", { class: "feature-name" }, name),
        bar,
        element(
          "span",
          { class: "feature-share" },
          percent(share),
          element("span", { class: "for-ears" }, ` now, ${percent(initial_share)} before learning`),
        ),
      );
    });
    return element("ol", { class: "feature-bars" }, rows);
  }

  #heatMap(title, what, top) {
    const { rows, columns, places } = this.#grid;
    const shares = new Map(this.#features.map((feature) => [feature.name, feature[what]]));
    const canvas = element("canvas", {
      width: columns,
      height: rows,
      class: "heat-map",
      role: "img",
      "aria-label": `${title}: share of each pixel; the list below has the numbers`,
    });
    const pen = canvas.getContext("2d");
    const colours = palette();
    for (const { name, row, column } of places) {
      // By the root: most shares are small, and their differences should be seen, too.
      pen.fillStyle = css(colours.scale(Math.sqrt((shares.get(name) ?? 0) / top)));
      pen.fillRect(column, row, 1, 1);
    }
    canvas.addEventListener("pointermove", (event) => {
      const { left, top: above, width, height } = canvas.getBoundingClientRect();
      const place = (share, n) => Math.min(Math.max(Math.floor(share * n), 0), n - 1);
      const [row, column] = [
        place((event.clientY - above) / height, rows),
        place((event.clientX - left) / width, columns),
      ];
      const { name } = places[row * columns + column];
      canvas.title = `${name}: ${shares.has(name) ? percent(shares.get(name)) : "little"}`;
    });
    return element("figure", {}, canvas, element("figcaption", {}, title));
  }
}
