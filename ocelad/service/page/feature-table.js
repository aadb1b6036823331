// The features of two items in one table.

import { element } from "./dom.js";
import { formatDistinct, formatNumber, formatPercent } from "./numbers.js";
import { say } from "./words.js";

const LETTERS = ["A", "B"];
// The service omits the features of items that have more.
const MAX_FEATURES = 100;

/** Returns one table of both items: the features that differ most first, the others collapsed. isNamed: the items are
 *  shown beside the table, too. */
export function featureTable(items, pair, project, path, api, { isNamed = false } = {}) {
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
      { scope: "col", "data-item": isNamed ? null : item.id, title: item.id },
      element("span", { class: "letter" }, LETTERS[i]),
      element("span", { class: "item-id" }, item.id),
    ),
  );
  const share = element(
    "th",
    { scope: "col", class: "share-column", title: say("features.share-hint") },
    say("features.share"),
  );
  const table = element(
    "table",
    {},
    element("caption", { class: "visually-hidden" }, say("features.caption")),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, say("features.feature")), heads, share)),
    element("tbody", {}, rows),
  );
  const rest = project.feature_names.filter((name) => !listed.has(name));
  const frame = element("div", { class: isNamed ? "feature-values" : "item feature-values" }, table);
  if (rest.length && project.feature_names.length <= MAX_FEATURES)
    frame.append(restOfFeatures(items, rest, path, api));
  return frame;
}

/** Returns the other features, which are fetched when they are opened. */
function restOfFeatures(items, names, path, api) {
  const frame = element("div", {}, element("p", { class: "hint" }, say("loading")));
  const details = element("details", {}, element("summary", {}, say("features.more", { n: names.length })), frame);
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
    const heads = [say("features.feature"), ...LETTERS].map((word) => element("th", { scope: "col" }, word));
    const caption = element("caption", { class: "visually-hidden" }, say("features.rest-caption"));
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
