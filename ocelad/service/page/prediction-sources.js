// Where the predictions come from, in a few families of experts that a person can tell apart.

import { say } from "./words.js";

// The families of the method "adaptive", by the beginning of an expert's name; the first match counts.
const FAMILIES = [
  ["memory", "earlier"],
  ["all learned", "all"],
  ["Euclidean", "plain"],
  ["standardized window", "recent"],
  ["standardized", "plain"],
  ["whitened", "plain"],
  ["curved", "curved"],
];
const ORDER = ["plain", "recent", "curved", "earlier", "all"];
// The experts of the method "rice" are scales, named by their lengths; the longest of the short and of the middle ones.
const SHORT = 8;
const MIDDLE = 64;

function familyOf(method, name) {
  if (method === "rice") return Number(name) <= SHORT ? "short" : Number(name) <= MIDDLE ? "middle" : "long";
  return FAMILIES.find(([beginning]) => name.startsWith(beginning))?.[1] ?? "recent";
}

/** Returns the families with their shares: [{name, shares}, ...], those of a timeline's experts. */
export function predictionSources({ method, experts, shares, n_answers }) {
  const order = method === "rice" ? ["short", "middle", "long"] : ORDER;
  const sums = new Map(order.map((family) => [family, null]));
  experts.forEach((name, k) => {
    const family = familyOf(method, name);
    const sum = sums.get(family) ?? n_answers.map(() => 0);
    sums.set(family, sum.map((share, row) => share + shares[k][row]));
  });
  return [...sums]
    .filter(([, sum]) => sum)
    .map(([family, sum]) => ({ name: say(`sources.${family}`, { short: SHORT, middle: MIDDLE }), shares: sum }));
}
