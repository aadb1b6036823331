// An item in a cell of a table: its name, a picture or the start of its text.

import { element } from "./dom.js";
import { nameOf, pictureElement } from "./pair-view.js";
import { showError } from "./messages.js";

/** Returns the element of an item. choose(item): called when its name is clicked; null: the name is a text. */
export function itemCell(item, api, choose, label) {
  const name = choose
    ? element("button", { type: "button", class: "linklike", title: label, dir: "auto" }, nameOf(item))
    : element("strong", { dir: "auto" }, nameOf(item));
  if (choose) name.addEventListener("click", () => choose(item));
  const text = item.text && item.text !== nameOf(item) ? item.text : null;
  const cell = element(
    "div",
    { class: "item-cell", "data-item": item.id },
    element("div", { class: "item-cell-body" }, name, text ? element("span", { class: "item-cell-text", dir: "auto" }, text) : []),
  );
  if (item.picture) pictureElement(item, api).then((picture) => cell.prepend(picture), showError);
  return cell;
}
