// One project in the list, with what the person may do.

import { element } from "./dom.js";
import { formatDay } from "./numbers.js";
import { questionOf } from "./question-words.js";
import { addressOf, pageExists } from "./shell.js";
import { say } from "./words.js";

/** Returns the element of a project. actions: functions by name, those that the person may use. */
export function projectCard(project, actions) {
  const archived = isArchived(project);
  const title = element("a", { href: addressOf("index", project.id), dir: "auto" }, project.title);
  const about = [
    say("items", { n: project.n_items }),
    // Not known of projects that are not in the service's memory.
    ...((project.n_answers ?? null) === null ? [] : [say("answers", { n: project.n_answers })]),
    say("projects.created", { day: formatDay(project.created_at) }),
    ...(project.permission === "admin" ? [] : [say(`permission.${project.permission}`)]),
  ];
  return element(
    "li",
    { class: archived ? "project-card archived" : "project-card", "data-project": project.id },
    element(
      "div",
      {},
      element("h2", {}, title, archived ? [" ", element("span", { class: "badge" }, say("projects.archived"))] : []),
      element("p", { class: "project-about" }, element("code", {}, project.id), ` · ${about.join(" · ")}`),
      element("p", { class: "project-about", dir: "auto" }, questionOf(project)),
    ),
    links(project),
    element("div", { class: "project-actions" }, Object.entries(actions).map((each) => actionButton(project, ...each))),
  );
}

export const isArchived = ({ archived_at: at }) => (at ?? null) !== null;

function links(project) {
  const mayAnswer = project.permission !== "read" && !isArchived(project);
  const named = (page, words, style) =>
    element(
      "a",
      {
        class: style,
        href: addressOf(page, project.id),
        "aria-label": say("projects.action-of", { action: words, project: project.title }),
      },
      words,
    );
  return element(
    "div",
    { class: "project-links" },
    named("index", say(mayAnswer ? "pages.index" : "projects.view"), "quiet same"),
    ["answers", "team"].filter(pageExists).map((page) => named(page, say(`pages.${page}`), "quiet")),
  );
}

function actionButton(project, name, action) {
  const words = say(`projects.${name}`);
  const button = element(
    "button",
    {
      type: "button",
      class: name === "delete" ? "quiet danger" : "quiet",
      "data-action": name,
      "aria-label": say("projects.action-of", { action: words, project: project.title }),
    },
    words,
  );
  button.addEventListener("click", action);
  return button;
}
