// How far people agree, in words and numbers.

import { byId, element } from "./dom.js";
import { formatNumber, formatPercent } from "./numbers.js";
import { say } from "./words.js";

// Krippendorff's own limits: reliable from 0.8 on, tentative conclusions from 0.667 on.
const GOOD = 0.8;
const FAIR = 0.667;
// With fewer pairs, nothing can be said.
const MIN_PAIRS = 5;

/** Shows the agreement of all pairs that several people have answered. mayChange: whether the person may set the share
 *  of pairs that are asked again. */
export function showAgreement(report, mayChange) {
  const { all, repeated, couples } = report;
  if (!all.n_pairs) {
    const hint = say(mayChange ? "agreement.none-set" : "agreement.none-ask");
    byId("agreement").replaceChildren(
      element("p", { class: "verdict-line" }, say("agreement.none")),
      element("p", {}, hint),
    );
    return;
  }
  byId("agreement").replaceChildren(
    element("p", { class: "verdict-line", id: "agreement-verdict" }, say(`agreement.${verdict(all)}`, { n: all.n_pairs })),
    element(
      "dl",
      { class: "figure-row" },
      figure("agreement.equal", estimate(all.percent, formatPercent), say("agreement.on-pairs", { n: all.n_pairs })),
      figure("agreement.alpha", estimate(all.alpha, twoDigits), say("agreement.alpha-means")),
      repeated.n_pairs
        ? figure("agreement.repeated", estimate(repeated.alpha, twoDigits), say("agreement.on-pairs", { n: repeated.n_pairs }))
        : [],
    ),
    couples.length ? coupleTable(couples) : "",
  );
}

/** What the numbers mean; an interval that contains both good and poor agreement means nothing yet. */
function verdict({ n_pairs: n, alpha: { value, low, high } }) {
  if (value === null) return "unknown";
  if (n < MIN_PAIRS || (low !== null && low < FAIR && high >= GOOD)) return "early";
  return value >= GOOD ? "good" : value >= FAIR ? "fair" : "poor";
}

const twoDigits = (number) => formatNumber(Math.round(number * 100) / 100);

/** Writes an estimate with its interval. */
function estimate({ value, low, high }, write) {
  if (value === null) return "–";
  return low === null ? write(value) : say("agreement.interval", { value: write(value), low: write(low), high: write(high) });
}

const figure = (label, value, hint) =>
  element(
    "div",
    {},
    element("dt", {}, say(label)),
    element("dd", {}, value, element("span", { class: "hint" }, hint)),
  );

function coupleTable(couples) {
  const head = ["agreement.couple", "agreement.both", "agreement.equal", "agreement.kappa"];
  return element(
    "details",
    { class: "more" },
    element("summary", {}, say("agreement.couples")),
    element(
      "table",
      { class: "wide" },
      element("caption", {}, say("agreement.kappa-means")),
      element("thead", {}, element("tr", {}, head.map((key) => element("th", { scope: "col" }, say(key))))),
      element(
        "tbody",
        {},
        couples.map(({ people, n_pairs: n, n_equal: equal, kappa }) =>
          element(
            "tr",
            {},
            element("th", { scope: "row", dir: "auto" }, people.join(", ")),
            element("td", { "data-label": say(head[1]) }, say("pairs", { n })),
            element("td", { "data-label": say(head[2]) }, say("figures.of", { part: equal, all: n })),
            element("td", { "data-label": say(head[3]) }, estimate(kappa, twoDigits)),
          ),
        ),
      ),
    ),
  );
}
