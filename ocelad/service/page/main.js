// The page: starts when the service tells which projects there are.

import { Api, Unreachable } from "./api.js";
import { showChoice } from "./chooser.js";
import { askToken, setUpHelp, setUpPerson, setUpTheme } from "./dialogs.js";
import { byId, count, lessMotion } from "./dom.js";
import { setUpKeys } from "./keys.js";
import { showProblem } from "./notices.js";
import { Outbox } from "./outbox.js";
import { personName } from "./person.js";
import { ProjectPage } from "./project.js";

const TRY_AGAIN = 1500;
const LATE = 800;

async function start() {
  let page = null;
  const openHelp = setUpHelp();
  setUpPerson();
  setUpTheme(() => page?.repaint());
  const api = new Api(personName, askToken);
  const outbox = new Outbox(api, showUnsent, showProblem);

  const projects = await firstProjects(api);
  const wanted = new URLSearchParams(location.search).get("project");
  const project = wanted === null ? projects[0] : projects.find(({ id }) => id === wanted);
  showChoice(project, projects);
  if (!project) {
    for (const empty of document.querySelectorAll("main, .figures, #connection")) empty.hidden = true;
    const choose = projects.length ? " Choose one above." : "";
    throw new Error(
      wanted === null ? "There is no project yet." : `There is no project "${wanted}" that you may see.${choose}`,
    );
  }
  outbox.resume();
  page = new ProjectPage(api, project, outbox);

  for (const button of document.querySelectorAll("[data-answer]")) {
    button.addEventListener("click", () => page.answer(button.dataset.answer));
  }
  byId("undo").addEventListener("click", () => page.undo());
  byId("mark-differences").addEventListener("change", (event) =>
    byId("pair").classList.toggle("unmarked", !event.target.checked),
  );
  setUpKeys({
    s: () => press("[data-answer=same]"),
    d: () => press("[data-answer=different]"),
    " ": () => press("[data-answer=skip]"),
    z: () => press("#undo"),
    "?": openHelp,
  });
  await page.run();
}

/** A key is its button, and one sees it go down. */
function press(selector) {
  const button = document.querySelector(selector);
  button.click();
  if (!button.disabled && !lessMotion()) button.animate([{ transform: "scale(0.96)" }, { transform: "none" }], 160);
}

async function firstProjects(api) {
  for (;;) {
    try {
      return (await api.get("v1/projects")).projects;
    } catch (problem) {
      if (!(problem instanceof Unreachable)) throw problem;
      byId("connection-words").textContent = "The service does not answer";
      await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN));
    }
  }
}

let lateTimer = 0;

/** A request that is on its way for a moment is not worth a word; one that takes long is. */
function showUnsent(unsent) {
  document.body.dataset.unsent = String(unsent);
  const words = byId("saved");
  const late = () => {
    const waiting = Number(document.body.dataset.unsent);
    words.textContent = `${count(waiting, "change")} not saved yet. Kept here, and sent when the service answers.`;
  };
  if (unsent && words.textContent) late();
  else if (unsent) lateTimer ||= setTimeout(late, LATE);
  else {
    clearTimeout(lateTimer);
    lateTimer = 0;
    words.textContent = "";
  }
}

start().catch(showProblem);
