// Two items side by side, with their differences highlighted.

import { count, element, formatDistinct, formatNumber, formatPercent } from "./dom.js";
import { pixelGrid } from "./pixel-grid.js";
import { diffWords } from "./text-diff.js";

const LETTERS = ["A", "B"];
const FEW_PIXELS = 128;
const LONG_TEXT = 250;
// The service omits the features of items that have more.
const MAX_FEATURES = 100;

/** Returns a promise of the elements of a pair; pictures are loaded first, so that nothing flickers. */
export async function pairElements(pair, project, path, api) {
  const items = [pair.left, pair.right];
  if (project.display === "picture") return pictureCards(items, pair, project, api);
  if (project.display === "text") return textCards(items);
  return [featureTable(items, pair, project, path, api)];
}

const heading = (item, i) =>
  element(
    "h2",
    { class: "item-head" },
    element("span", { class: "letter" }, LETTERS[i]),
    element("span", { class: "item-id", title: item.id }, item.id),
  );

async function pictureCards(items, pair, project, api) {
  const grid = pixelGrid(project.feature_names);
  const marked = new Set(pair.differences.filter((difference) => difference.share > 0).map(({ feature }) => feature));
  return Promise.all(
    items.map(async (item, i) => {
      const picture = await pictureElement(item, api);
      const box = element("div", { class: "picture-box" }, picture);
      const shape = picture.naturalWidth / picture.naturalHeight || 1;
      box.style.aspectRatio = String(shape);
      box.style.width = `${100 * Math.min(shape, 1)}%`;
      if (grid) box.append(markedPixels(grid, marked));
      return element(
        "article",
        { class: "item", "data-item": item.id },
        heading(item, i),
        element("div", { class: "picture" }, box),
      );
    }),
  );
}

export async function pictureElement(item, api) {
  const picture = element("img", {
    src: await api.picture(item.picture),
    alt: `Picture of ${item.id}`,
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

function textCards(items) {
  return diffWords(items[0].text ?? "", items[1].text ?? "").map((runs, i) =>
    element(
      "article",
      { class: "item", "data-item": items[i].id },
      heading(items[i], i),
      element(
        "p",
        longText(items[i].text, LETTERS[i]),
        runs.map(({ text, differs }) => (differs ? element("mark", {}, text) : text)),
      ),
    ),
  );
}

/** Returns the attributes of a text; a long one can have the focus, so that it can be scrolled with keys. */
function longText(text, letter) {
  const scrolled = text && text.length > LONG_TEXT;
  return {
    class: "item-text",
    ...(scrolled ? { tabindex: "0", role: "group", "aria-label": `Text of ${letter}` } : {}),
  };
}

/** Returns one table of both items: the features that differ most first, the others collapsed. */
function featureTable(items, pair, project, path, api) {
  const listed = new Set(pair.differences.map(({ feature }) => feature));
  const largest = Math.max(...pair.differences.map(({ share }) => Math.abs(share)), 1e-300);
  const rows = pair.differences.map(({ feature, left, right, share }) => {
    const bar = element(
      "span",
      { class: "bar", "aria-hidden": "true" },
      element("span", { class: share < 0 ? "fill against" : "fill" }),
    );
    bar.firstChild.style.width = `${(100 * Math.abs(share)) / largest}%`;
    const marked = Math.abs(share) >= largest / 4;
    const values = formatDistinct(left, right);
    return element(
      "tr",
      { class: marked ? "differs" : null },
      element("th", { scope: "row", title: feature }, feature),
      values.map((value) => element("td", {}, marked ? element("mark", {}, value) : value)),
      element(
        "td",
        {},
        element("span", { class: "share-cell" }, bar, element("span", { class: "share-number" }, formatPercent(share))),
      ),
    );
  });
  const heads = items.map((item, i) =>
    element(
      "th",
      { scope: "col", "data-item": item.id, title: item.id },
      element("span", { class: "letter" }, LETTERS[i]),
      element("span", { class: "item-id" }, item.id),
    ),
  );
  const share = element(
    "th",
    { scope: "col", class: "share-column", title: "Share of the squared distance between the scaled items" },
    "Share",
  );
  const table = element(
    "table",
    {},
    element("caption", { class: "visually-hidden" }, "Features of both items, those that differ most first"),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Feature"), heads, share)),
    element("tbody", {}, rows),
  );
  const rest = project.feature_names.filter((name) => !listed.has(name));
  const frame = element("div", { class: "item feature-values" }, table);
  if (rest.length && project.feature_names.length <= MAX_FEATURES)
    frame.append(restOfFeatures(items, rest, path, api));
  return frame;
}

/** Returns the other features, which are fetched when they are opened. */
function restOfFeatures(items, names, path, api) {
  const frame = element("div", {}, element("p", { class: "hint" }, "Loading"));
  const details = element("details", {}, element("summary", {}, count(names.length, "more feature")), frame);
  const show = async () => {
    const both = await Promise.all(items.map(({ id }) => api.get(`${path}/items/${encodeURIComponent(id)}`)));
    const rows = names.map((name) =>
      element(
        "tr",
        {},
        element("th", { scope: "row", title: name }, name),
        both.map(({ features }) => element("td", {}, formatNumber(features[name]))),
      ),
    );
    const heads = ["Feature", ...LETTERS].map((word) => element("th", { scope: "col" }, word));
    const caption = element("caption", { class: "visually-hidden" }, "The other features of both items");
    frame.replaceChildren(
      element("table", {}, caption, element("thead", {}, element("tr", {}, heads)), element("tbody", {}, rows)),
    );
  };
  details.addEventListener(
    "toggle",
    () => details.open && show().catch((error) => frame.replaceChildren(error.message)),
  );
  return details;
}
