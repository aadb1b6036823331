// The colours of the map: clusters, a column of the data, or the distance to the item under the pointer.

import { MAX_GROUPS, palette } from "./palette.js";
import { css, element } from "./dom.js";
import { formatNumber } from "./numbers.js";
import { packColour } from "./raster.js";
import { language, say } from "./words.js";

const CLUSTERS = "clusters";
const NEIGHBORS = "neighbors";
const COLUMN = "column:";
const N_NEIGHBORS = 50;
const DEFAULT_CLUSTERS = 6;
// Neighbours must stand out, so that the faint end of the scale is not used.
const MIN_NEARNESS = 0.4;

export class Colouring {
  #api;
  #path;
  #map;
  #choice;
  #nClusters;
  #legend;
  #n = 0;
  #clusters = null;
  #column = null;
  #near = null;
  #pointed = null;
  #selected = null;

  /** choice, nClusters: select elements; changed(): called when clusters must be fetched again. */
  constructor(api, path, project, map, { choice, nClusters, legend }, changed) {
    [this.#api, this.#path, this.#map] = [api, path, map];
    [this.#choice, this.#nClusters, this.#legend] = [choice, nClusters, legend];
    choice.append(new Option(say("map.clusters"), CLUSTERS), new Option(say("map.nearness"), NEIGHBORS));
    if (project.columns.length) {
      choice.append(
        element(
          "optgroup",
          { label: say("map.columns") },
          project.columns.map(({ name }) => new Option(name, COLUMN + name)),
        ),
      );
    }
    const maxClusters = Math.max(Math.min(MAX_GROUPS, project.n_items), 2);
    for (let k = 2; k <= maxClusters; k++) nClusters.append(new Option(k, k));
    nClusters.value = String(Math.min(DEFAULT_CLUSTERS, maxClusters));
    choice.addEventListener("change", () => this.#chosen().then(changed));
    nClusters.addEventListener("change", changed);
    this.#toggleClusters();
  }

  /** The number of clusters to request; null if they are not shown. */
  get clustersWanted() {
    return this.#choice.value === CLUSTERS ? Number(this.#nClusters.value) : null;
  }

  /** Sets the number of items and their clusters (or null). */
  update(n, clusters) {
    const grown = n !== this.#n;
    [this.#n, this.#clusters] = [n, clusters ?? this.#clusters];
    if (grown && this.#column) this.#chosen();
    this.paint();
  }

  /** Sets the item under the pointer; also called when the metric has changed. */
  async point(position, idOf) {
    this.#pointed = position;
    if (this.#choice.value !== NEIGHBORS || position === null) return;
    const { neighbors, threshold } = await this.#api.get(`${this.#path}/neighbors`, {
      item: await idOf(position),
      k: N_NEIGHBORS,
    });
    if (position !== this.#pointed) return;
    this.#near = { position, neighbors, threshold };
    this.paint();
  }

  async #chosen() {
    this.#toggleClusters();
    this.#selected = null;
    this.#column = null;
    if (this.#choice.value.startsWith(COLUMN)) {
      const name = this.#choice.value.slice(COLUMN.length);
      this.#column = await this.#api.get(`${this.#path}/columns/${encodeURIComponent(name)}`);
    }
    this.paint();
  }

  #toggleClusters() {
    for (const part of document.querySelectorAll(".cluster-choice")) part.hidden = this.#choice.value !== CLUSTERS;
  }

  paint() {
    if (!this.#n) return;
    const colours = palette();
    const { colourOf, groupOf, legend } = this.#meaning(colours);
    const [behind, inFront] = [[], []];
    const result = new Uint32Array(this.#n);
    for (let i = 0; i < this.#n; i++) {
      const group = groupOf(i);
      const isFaint = group === null || (this.#selected !== null && group !== this.#selected);
      result[i] = packColour(isFaint ? colours.faint(group === null ? colours.grey : colourOf(i)) : colourOf(i));
      (isFaint ? behind : inFront).push(i);
    }
    this.#map.paint({ colours: result, order: Uint32Array.from([...behind, ...inFront]), palette: colours });
    this.#legend.replaceChildren(...legend);
  }

  /** groupOf(i): the legend entry of item i; null: the item is drawn faintly behind the others. */
  #meaning(colours) {
    const kind = this.#choice.value;
    if (kind === NEIGHBORS) return this.#nearness(colours);
    if (this.#column?.kind === "number") return this.#numbers(colours);
    if (this.#column) {
      const { values, categories } = this.#column;
      return this.#groups(colours, values, categories);
    }
    if (kind === CLUSTERS && this.#clusters) return this.#groups(colours, this.#clusters, null);
    return { colourOf: () => colours.grey, groupOf: () => 0, legend: [] };
  }

  #groups(colours, values, names) {
    // The most frequent categories have a colour each; the legend lists them in natural order: 1, 2, 10.
    const named = names && names.slice(0, MAX_GROUPS).sort((a, b) => a.localeCompare(b, language, { numeric: true }));
    const places = named && names.map((name, i) => (i < MAX_GROUPS ? named.indexOf(name) : MAX_GROUPS));
    const groupOf = (i) => {
      const value = values[i] ?? null;
      return value !== null && places ? places[value] : value;
    };
    const sizes = new Array(MAX_GROUPS + 1).fill(0);
    for (let i = 0; i < this.#n; i++) if (groupOf(i) !== null) sizes[groupOf(i)] += 1;
    const nameOf = (group) => (group === MAX_GROUPS ? say("map.others") : named ? named[group] : say("map.cluster", { number: group + 1 }));
    const legend = sizes.flatMap((size, group) => {
      if (!size) return [];
      const button = element("button", {
        type: "button",
        class: "legend-entry",
        "aria-pressed": String(this.#selected === group),
        title: say("map.highlight"),
      });
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = css(colours.group(group));
      button.append(
        swatch,
        element("span", {}, nameOf(group)),
        element("span", { class: "legend-size" }, formatNumber(size)),
      );
      button.addEventListener("click", () => {
        this.#selected = this.#selected === group ? null : group;
        this.paint();
        this.#legend.querySelectorAll("button")[legend.indexOf(button)]?.focus();
      });
      return [button];
    });
    return { colourOf: (i) => colours.group(groupOf(i)), groupOf, legend };
  }

  #numbers(colours) {
    const { values } = this.#column;
    const known = values.filter((value) => value !== null);
    const low = known.reduce((a, b) => Math.min(a, b), Infinity);
    const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
    return {
      colourOf: (i) => colours.scale(share(values[i])),
      groupOf: (i) => (values[i] === null || values[i] === undefined ? null : 0),
      legend: this.#ramp(colours, formatNumber(low), formatNumber(high)),
    };
  }

  #nearness(colours) {
    if (!this.#near) {
      const hint = element("span", { class: "hint" }, say("map.point"));
      return { colourOf: () => colours.grey, groupOf: () => null, legend: [hint] };
    }
    const { position, neighbors } = this.#near;
    const farthest = Math.max(...neighbors.map(({ distance }) => distance), 1e-300);
    const nearness = new Map(
      neighbors.map(({ item, distance }) => {
        const nearness = 1 - distance / farthest;
        return [item.position, MIN_NEARNESS + (1 - MIN_NEARNESS) * nearness];
      }),
    );
    nearness.set(position, 1);
    return {
      colourOf: (i) => colours.scale(nearness.get(i) ?? 0),
      groupOf: (i) => (nearness.has(i) ? 0 : null),
      legend: this.#ramp(
        colours,
        say("map.farthest", { n: neighbors.length, distance: formatNumber(farthest) }),
        say("map.nearest"),
        MIN_NEARNESS,
      ),
    };
  }

  #ramp(colours, low, high, from = 0) {
    const ramp = element("span", { class: "ramp", "aria-hidden": "true" });
    const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => css(colours.scale(from + (1 - from) * share)));
    ramp.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    return [element("span", {}, low), ramp, element("span", {}, high)];
  }
}
