// Which columns name an item, are shown on its card, and are learned from.

import { element } from "./dom.js";
import { say } from "./words.js";

/** Returns a field with a selection of columns. columns: names; none: the words for no choice; prefix: of ids. */
export function columnSelect({ role, label, columns, none, selected = null, prefix = "column" }) {
  const id = `${prefix}-${role}`;
  const select = element(
    "select",
    { id, "data-role": role, "aria-describedby": `${id}-refused` },
    element("option", { value: "" }, none),
    columns.map((name) => element("option", { value: name, selected: name === selected }, name)),
  );
  const refused = element("p", { class: "refused", id: `${id}-refused`, "data-refuses": role, role: "alert" });
  return element("div", { class: "field" }, element("label", { for: id }, label), select, refused);
}

/** Returns a field with a check box for each column. */
export function columnChecks({ role, label, columns, checked }) {
  const boxes = columns.map((name) =>
    element(
      "label",
      { class: "choice" },
      element("input", { type: "checkbox", value: name, checked: checked.includes(name) }),
      element("span", { dir: "auto" }, name),
    ),
  );
  const refused = element("p", { class: "refused", "data-refuses": role, role: "alert" });
  const list = element("div", { class: "checks", "data-role": role }, boxes);
  return element("fieldset", { class: "field" }, element("legend", {}, label), list, refused);
}

/** Returns a field in which the columns are found by the service, or chosen by the person. */
export function columnSet({ role, label, automatic, columns, checked }) {
  const id = `columns-${role}`;
  const select = element(
    "select",
    { id, "data-set": role },
    element("option", { value: "" }, automatic),
    element("option", { value: "chosen" }, say("columns.chosen")),
  );
  const checks = columnChecks({ role, label: say("columns.of", { label }), columns, checked });
  checks.hidden = true;
  checks.querySelector("legend").className = "visually-hidden";
  select.addEventListener("change", () => (checks.hidden = !select.value));
  return element("div", { class: "field" }, element("label", { for: id }, label), select, checks);
}

/** The chosen column of a role; null: none. */
export const selectedColumn = (root, role) => root.querySelector(`select[data-role="${role}"]`)?.value || null;

/** The checked columns of a role; null if the service finds them. */
export function checkedColumns(root, role) {
  const set = root.querySelector(`select[data-set="${role}"]`);
  if (set && !set.value) return null;
  return [...root.querySelectorAll(`.checks[data-role="${role}"] input:checked`)].map(({ value }) => value);
}
