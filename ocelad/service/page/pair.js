// Two items side by side, with what differs marked.

import { element, percent, short } from "./dom.js";
import { gridOf } from "./grid.js";
import { differingWords } from "./words.js";

const LETTERS = ["A", "B"];

/** The elements that show a pair; pictures are loaded before they are returned, so that nothing flickers. */
export async function pairElements(pair, project, api) {
  const items = [pair.left, pair.right];
  if (project.shown === "picture") return pictureCards(items, pair, project, api);
  if (project.shown === "text") return textCards(items);
  return [featureTable(items, pair, project)];
}

const heading = (item, i) =>
  element("h2", { class: "item-head" }, element("span", { class: "letter" }, LETTERS[i]), element("span", { class: "item-id" }, item.id));

async function pictureCards(items, pair, project, api) {
  const grid = gridOf(project.feature_names);
  const marked = new Set(pair.differences.filter((difference) => difference.share > 0).map(({ feature }) => feature));
  return Promise.all(
    items.map(async (item, i) => {
      const picture = await pictureElement(item, api);
      const frame = element("div", { class: "picture" }, picture);
      if (grid) frame.append(markedPixels(grid, marked));
      return element("article", { class: "item", "data-item": item.id }, heading(item, i), frame);
    }),
  );
}

export async function pictureElement(item, api) {
  const picture = element("img", { src: await api.picture(item.picture), alt: `Picture of ${item.id}`, draggable: "false" });
  await picture.decode().catch(() => {});
  // Few pixels are shown as the squares that they are.
  if (picture.naturalWidth <= 64) picture.classList.add("pixels");
  return picture;
}

/** Outlines around the pixels that hold the two apart most, one line around those that touch. */
function markedPixels({ side, places }, marked) {
  const inside = new Set(places.filter(({ name }) => marked.has(name)).map(({ row, column }) => row * side + column));
  const has = (row, column) => row >= 0 && column >= 0 && row < side && column < side && inside.has(row * side + column);
  let outline = "";
  for (const place of inside) {
    const [row, column] = [Math.floor(place / side), place % side];
    if (!has(row - 1, column)) outline += `M${column} ${row}h1`;
    if (!has(row + 1, column)) outline += `M${column} ${row + 1}h1`;
    if (!has(row, column - 1)) outline += `M${column} ${row}v1`;
    if (!has(row, column + 1)) outline += `M${column + 1} ${row}v1`;
  }
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${side} ${side}`);
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

function textCards(items) {
  return differingWords(items[0].text ?? "", items[1].text ?? "").map((runs, i) =>
    element(
      "article",
      { class: "item", "data-item": items[i].id },
      heading(items[i], i),
      element("p", { class: "item-text" }, runs.map(({ text, differs }) => (differs ? element("mark", {}, text) : text))),
    ),
  );
}

/** One table for both: the features that differ most under the metric first, the others folded away. */
function featureTable(items, pair, project) {
  const told = new Set(pair.differences.map(({ feature }) => feature));
  const rest = project.feature_names.filter((name) => !told.has(name) && name in items[0].features);
  const largest = Math.max(...pair.differences.map(({ share }) => Math.abs(share)), 1e-300);
  const rows = pair.differences.map(({ feature, left, right, share }) => {
    const bar = element("span", { class: "bar" }, element("span", { class: share < 0 ? "fill against" : "fill" }));
    bar.firstChild.style.width = `${(100 * Math.abs(share)) / largest}%`;
    const marked = Math.abs(share) >= largest / 4;
    return element(
      "tr",
      { class: marked ? "differs" : null },
      element("th", { scope: "row", title: feature }, feature),
      [left, right].map((value) => element("td", {}, marked ? element("mark", {}, short(value)) : short(value))),
      element("td", {}, element("span", { class: "share-cell" }, bar, element("span", { class: "share-number" }, percent(share)))),
    );
  });
  const table = element(
    "table",
    {},
    element("caption", { class: "for-ears" }, "Features of both items, those that hold them apart most first"),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("th", { scope: "col" }, "Feature"),
        items.map((item, i) => element("th", { scope: "col", "data-item": item.id, title: item.id }, element("span", { class: "letter" }, LETTERS[i]), element("span", { class: "item-id" }, item.id))),
        element("th", { scope: "col", class: "of-distance", title: "Share of the squared distance between the two" }, "Share"),
      ),
    ),
    element("tbody", {}, rows),
  );
  const frame = element("div", { class: "item feature-values" }, table);
  if (rest.length) {
    const more = rest.map((name) =>
      element("tr", {}, element("th", { scope: "row", title: name }, name), items.map((item) => element("td", {}, short(item.features[name])))),
    );
    frame.append(
      element(
        "details",
        {},
        element("summary", {}, `${rest.length} more features`),
        element("table", {}, element("caption", { class: "for-ears" }, "The other features of both items"), element("thead", {}, element("tr", {}, ["Feature", "A", "B"].map((word) => element("th", { scope: "col" }, word)))), element("tbody", {}, more)),
      ),
    );
  }
  return frame;
}
