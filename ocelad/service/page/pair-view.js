// Two items side by side: what names them, with their differences highlighted, and their features.

import { element } from "./dom.js";
import { featureTable } from "./feature-table.js";
import { openPicture } from "./picture-dialog.js";
import { pixelGrid } from "./pixel-grid.js";
import { diffWords } from "./text-diff.js";
import { formatDistinct, formatNumber } from "./numbers.js";
import { say } from "./words.js";

const LETTERS = ["A", "B"];
const FEW_PIXELS = 128;
const LONG_TEXT = 250;
const FEATURES_KEY = "ocelad.features";

/** The name of an item: its title, or else its id. */
export const nameOf = (item) => item.title ?? item.id;

/** Returns a promise of the elements of a pair; pictures are loaded first, so that nothing flickers. */
export async function pairElements(pair, project, path, api) {
  const items = [pair.left, pair.right];
  const grid = pixelGrid(project.feature_names);
  const fields = items.map(shownFields);
  const isNamed = items.some((item, i) => item.title || item.picture || item.text || item.link || fields[i].length);
  if (!isNamed) return [featureTable(items, pair, project, path, api)];
  const texts = items.every(({ text }) => text !== null && text !== undefined)
    ? diffWords(items[0].text, items[1].text)
    : items.map(({ text }) => (text ? [{ text, differs: false }] : null));
  const pictures = await Promise.all(
    items.map((item) => (item.picture ? pictureCard(item, pair, grid, api) : null)),
  );
  const cards = items.map((item, i) =>
    element(
      "article",
      { class: "item", "data-item": item.id },
      heading(item, i),
      pictures[i] ?? [],
      texts[i] ? textElement(item.text, texts[i], LETTERS[i]) : [],
      fields[i].length ? fieldList(fields[i], fields[1 - i]) : [],
      linkElement(item.link),
    ),
  );
  // The features of pictures are pixels, or numbers of a network, which no person compares.
  const hasFeatures = pair.differences.length > 0 && !grid && !items.some(({ picture }) => picture);
  return hasFeatures ? [...cards, featuresOnDemand(items, pair, project, path, api)] : cards;
}

const heading = (item, i) =>
  element(
    "h2",
    { class: "item-head" },
    element("span", { class: "letter" }, LETTERS[i]),
    element("span", { class: item.title ? "item-title" : "item-id", title: item.id, dir: "auto" }, nameOf(item)),
  );

async function pictureCard(item, pair, grid, api) {
  const picture = await pictureElement(item, api);
  const box = element("span", { class: "picture-box" }, picture);
  const shape = picture.naturalWidth / picture.naturalHeight || 1;
  box.style.aspectRatio = String(shape);
  box.style.width = `${100 * Math.min(shape, 1)}%`;
  const marked = new Set(pair.differences.filter((difference) => difference.share > 0).map(({ feature }) => feature));
  if (grid) box.append(markedPixels(grid, marked));
  const label = say("picture.enlarge", { item: nameOf(item) });
  const open = element("button", { type: "button", class: "picture", "aria-label": label, title: label }, box);
  open.addEventListener("click", () => openPicture(item, api));
  return open;
}

/** The chosen columns of an item that are neither its title nor its text; none of a service that cannot choose. */
function shownFields(item) {
  if (!("title" in item)) return [];
  return Object.entries(item.fields).filter(([, value]) => value !== null && value !== "");
}

function fieldList(fields, others) {
  const other = new Map(others);
  return element(
    "dl",
    { class: "item-fields" },
    fields.map(([name, value]) => {
      const differs = other.has(name) && other.get(name) !== value;
      const text = fieldText(value, differs ? other.get(name) : value);
      return element(
        "div",
        {},
        element("dt", { dir: "auto" }, name),
        element("dd", { dir: "auto" }, differs ? element("mark", {}, text) : text),
      );
    }),
  );
}

function fieldText(value, other) {
  if (typeof value === "boolean") return say(value ? "yes" : "no");
  if (typeof value !== "number") return String(value);
  return typeof other === "number" ? formatDistinct(value, other)[0] : formatNumber(value);
}

/** Returns a link to a page about the item; only to web pages, and the page learns nothing about this one. */
function linkElement(link) {
  const address = link && URL.canParse(link) ? new URL(link) : null;
  if (!address || !["http:", "https:"].includes(address.protocol)) return [];
  const shown = `${address.host}${address.pathname === "/" ? "" : address.pathname}`;
  return element(
    "a",
    { class: "item-link", href: address.href, target: "_blank", rel: "noopener noreferrer", title: address.href },
    shown,
    element("span", { class: "visually-hidden" }, ` ${say("link.new-tab")}`),
  );
}

/** Returns the features, which are shown on demand; the page remembers whether they are. */
function featuresOnDemand(items, pair, project, path, api) {
  const details = element("details", { class: "item features-on-demand" }, element("summary", {}, say("features.show")));
  const show = () => {
    if (details.open && details.childElementCount === 1)
      details.append(featureTable(items, pair, project, path, api, { isNamed: true }));
  };
  details.addEventListener("toggle", () => {
    // Not of a pair that was fetched in advance, before the person opened or closed the features of another one.
    if (details.isConnected) localStorage.setItem(FEATURES_KEY, details.open ? "open" : "closed");
    show();
  });
  return details;
}

/** Shows the features of a pair if the person has opened those of the last one. */
export function openFeatures(frame) {
  const details = frame.querySelector(".features-on-demand");
  if (details) details.open = localStorage.getItem(FEATURES_KEY) === "open";
}

export async function pictureElement(item, api) {
  const picture = element("img", {
    src: await api.picture(item.picture),
    alt: say("picture.of", { item: nameOf(item) }),
    draggable: "false",
  });
  await picture.decode().catch(() => {});
  // Small pictures are enlarged without smoothing.
  if (picture.naturalWidth <= FEW_PIXELS) picture.classList.add("pixels");
  return picture;
}

/** Returns an outline of the pixels that differ most, joined where they touch. */
function markedPixels({ rows, columns, cells }, marked) {
  const inside = new Set(
    cells.filter(({ name }) => marked.has(name)).map(({ row, column }) => row * columns + column),
  );
  const has = (row, column) =>
    row >= 0 && column >= 0 && row < rows && column < columns && inside.has(row * columns + column);
  let outline = "";
  for (const index of inside) {
    const [row, column] = [Math.floor(index / columns), index % columns];
    if (!has(row - 1, column)) outline += `M${column} ${row}h1`;
    if (!has(row + 1, column)) outline += `M${column} ${row + 1}h1`;
    if (!has(row, column - 1)) outline += `M${column} ${row}v1`;
    if (!has(row, column + 1)) outline += `M${column + 1} ${row}v1`;
  }
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${columns} ${rows}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "difference");
  svg.setAttribute("aria-hidden", "true");
  for (const layer of ["under", "over"]) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", outline);
    path.setAttribute("class", layer);
    svg.append(path);
  }
  return svg;
}

function textElement(text, runs, letter) {
  return element(
    "p",
    longText(text, letter),
    runs.map(({ text: run, differs }) => (differs ? element("mark", {}, run) : run)),
  );
}

/** Returns the attributes of a text; a long one can have the focus, so that it can be scrolled with keys. */
function longText(text, letter) {
  const scrolled = text && text.length > LONG_TEXT;
  return {
    class: "item-text",
    dir: "auto",
    ...(scrolled ? { tabindex: "0", role: "group", "aria-label": say("text.of", { letter }) } : {}),
  };
}
