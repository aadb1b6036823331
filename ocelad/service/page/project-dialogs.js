// The dialogs for a project: its words and cards, a copy, and its deletion.

import { checkedColumns, columnChecks, columnSelect, selectedColumn } from "./column-choices.js";
import { byId, element } from "./dom.js";
import { field, openFormDialog } from "./form-dialog.js";
import { freeId } from "./project-id.js";
import { say } from "./words.js";

const CARD_ROLES = ["title", "text", "link", "picture"];
const text = (value, attributes) => {
  const input = element("input", { dir: "auto", autocomplete: "off", ...attributes });
  input.value = value;
  return input;
};

/** Returns a promise of the changed project; undefined: cancelled. project: with guidelines and cards. */
export function openSettings(projects, project) {
  const guidelines = element("textarea", { rows: 5, maxlength: 20000, dir: "auto" });
  guidelines.value = project.guidelines ?? "";
  const parts = [
    field({ id: "new-title", label: say("project.title-label"), input: text(project.title, { maxlength: 200 }), refuses: "title" }),
    field({
      id: "new-question",
      label: say("project.question-label"),
      hint: say("project.question-hint"),
      input: text(project.question, { maxlength: 300 }),
      refuses: "question",
    }),
    field({
      id: "new-guidelines",
      label: say("project.guidelines-label"),
      hint: say("project.guidelines-hint"),
      input: guidelines,
      refuses: "guidelines",
    }),
    project.card_columns?.length ? cardFields(project) : [],
  ];
  const value = (id) => byId(id).value.trim();
  return openFormDialog({
    title: say("settings.title", { project: project.title }),
    parts,
    action: say("save"),
    wide: true,
    send: (form) =>
      projects.change(project.id, {
        title: value("new-title"),
        question: value("new-question"),
        guidelines: value("new-guidelines"),
        ...(project.card_columns?.length ? { cards: chosenCards(form) } : {}),
      }),
  });
}

/** The fields for the columns of the cards, the chosen ones first. */
function cardFields({ cards, card_columns: columns }) {
  const pictures = columns.filter(({ kind }) => kind === "picture").map(({ name }) => name);
  const others = columns.filter(({ kind }) => kind !== "picture").map(({ name }) => name);
  const ordered = [...new Set([...cards.fields, ...others])];
  const select = (role) => {
    const label = say(`columns.${role === "title" ? "item_title" : role}`);
    const names = role === "picture" ? pictures : others;
    const [none, selected] = [say("columns.none"), cards[role]];
    const made = columnSelect({ role, label, columns: names, none, selected, prefix: "card" });
    made.querySelector("[data-refuses]").dataset.refuses = `cards.${role}`;
    return made;
  };
  const shown = columnChecks({ role: "fields", label: say("columns.show"), columns: ordered, checked: cards.fields });
  shown.querySelector("[data-refuses]").dataset.refuses = "cards.fields cards";
  const roles = CARD_ROLES.filter((role) => role !== "picture" || pictures.length);
  return element(
    "fieldset",
    { class: "form" },
    element("legend", {}, say("settings.cards")),
    element("p", { class: "hint" }, say("settings.cards-hint")),
    element("div", { class: "fields" }, roles.map(select)),
    shown,
  );
}

function chosenCards(form) {
  const roles = CARD_ROLES.filter((role) => form.querySelector(`select[data-role="${role}"]`));
  const single = Object.fromEntries(roles.map((role) => [role, selectedColumn(form, role)]));
  return { ...single, fields: checkedColumns(form, "fields") };
}

/** Returns a promise of the copy; undefined: cancelled. */
export function openCopy(projects, project, takenIds) {
  const answers = element("input", { type: "checkbox", id: "copy-answers" });
  const title = say("copy.new-title", { project: project.title });
  return openFormDialog({
    title: say("copy.title", { project: project.title }),
    parts: [
      field({ id: "copy-title", label: say("project.title-label"), input: text(title, { maxlength: 200 }), refuses: "title" }),
      field({
        id: "copy-id",
        label: say("project.id-label"),
        hint: say("project.id-hint"),
        input: text(freeId(project.id, takenIds), { maxlength: 64, spellcheck: "false", autocapitalize: "none" }),
        refuses: "id",
      }),
      element(
        "div",
        { class: "field" },
        element("label", { class: "choice" }, answers, element("span", {}, say("copy.answers"))),
      ),
    ],
    action: say("projects.copy"),
    send: () =>
      projects.copy(project.id, {
        id: byId("copy-id").value.trim(),
        title: byId("copy-title").value.trim(),
        answers: answers.checked,
      }),
  });
}

/** Returns a promise of true if the project was deleted; undefined: cancelled. The person types the id first. */
export function openDelete(projects, project) {
  const typed = text("", { spellcheck: "false", autocapitalize: "none" });
  const answers = (project.n_answers ?? null) === null ? say("delete.all-answers") : say("answers", { n: project.n_answers });
  return openFormDialog({
    title: say("delete.title", { project: project.title }),
    text: say("delete.text", { items: say("items", { n: project.n_items }), answers }),
    parts: [field({ id: "delete-id", label: say("delete.type", { id: project.id }), input: typed, refuses: "confirm" })],
    action: say("projects.delete"),
    style: "danger",
    ready(form, submit) {
      submit.disabled = true;
      typed.addEventListener("input", () => (submit.disabled = typed.value.trim() !== project.id));
    },
    async send() {
      await projects.remove(project.id);
      return true;
    },
  });
}
