// What a page shows if there is no project, or not the wanted one.

import { element } from "./dom.js";
import { addressOf, pageExists, wantedProject } from "./shell.js";
import { say } from "./words.js";

/** Says what to do in the place of the page's content. */
export function showNoProject(projects) {
  const wanted = wantedProject();
  const title = wanted === null ? say("no-project.title") : say("no-project.unknown", { project: wanted });
  const hint = say(projects.length ? "no-project.choose" : pageExists("projects") ? "no-project.create" : "no-project.command");
  const link = element("a", { class: "answer same", href: addressOf("projects") }, say("no-project.link"));
  const main = document.querySelector("main");
  main.className = "blank";
  main.replaceChildren(
    element(
      "section",
      { class: "panel blank-state" },
      element("h1", {}, title),
      element("p", {}, hint),
      pageExists("projects") ? link : projects.length ? [] : element("code", {}, "ocelad serve items.csv"),
    ),
  );
  main.hidden = false;
}
