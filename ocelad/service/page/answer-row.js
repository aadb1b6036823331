// One answer in the table, with what the person may do.

import { element } from "./dom.js";
import { itemCell } from "./item-cell.js";
import { formatTime } from "./numbers.js";
import { say } from "./words.js";

export const ANSWERS = ["same", "different", "skip"];

/** Returns the row of an answer. on: {change(seq, answer), undo(seq), item(item)}. */
export function answerRow(given, api, on) {
  const undone = given.undone_by !== null;
  const cell = (label, ...children) => element("td", { "data-label": say(label) }, ...children);
  return element(
    "tr",
    { class: undone ? "undone" : null, "data-seq": given.seq },
    cell("answers.when", formatTime(given.at)),
    cell("answers.person", element("span", { dir: "auto" }, given.person || say("answers.nobody"))),
    element(
      "td",
      {},
      element(
        "div",
        { class: "pair-cell" },
        [given.left, given.right].map((item) => itemCell(item, api, on.item, say("answers.filter-by", { item: item.id }))),
      ),
    ),
    cell("answers.answer", answerBadge(given.answer)),
    cell("answers.source", say(`source.${given.source}`)),
    element("td", {}, undone ? element("span", { class: "undone-note" }, say("answers.is-undone")) : actions(given, on)),
  );
}

/** Returns the word of an answer, in its colour. */
export const answerBadge = (answer) =>
  element("span", { class: answer === "skip" ? "badge" : `badge is-${answer}` }, say(`answered.${answer}`));

function actions(given, on) {
  if (!given.may_change) return [];
  const names = [given.left, given.right].map(({ title, id }) => title ?? id).join(", ");
  const change = element(
    "select",
    { class: "change", "aria-label": say("answers.change-of", { names }) },
    element("option", { value: "" }, say("answers.change")),
    ANSWERS.filter((answer) => answer !== given.answer).map((answer) =>
      element("option", { value: answer }, say("answers.change-to", { answer: say(`answered.${answer}`) })),
    ),
  );
  change.addEventListener("change", () => change.value && on.change(given, change.value));
  const undo = element(
    "button",
    { type: "button", class: "quiet", "aria-label": say("answers.undo-of", { names }) },
    say("answer.undo"),
  );
  undo.addEventListener("click", () => on.undo(given));
  return element("div", { class: "row-actions" }, change, undo);
}
