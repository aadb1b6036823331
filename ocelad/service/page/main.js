// Starts the page when the service has returned its projects.

import { Api, Unreachable } from "./api.js";
import { showProjectSelect } from "./project-select.js";
import { askToken, setUpHelp, setUpPerson, setUpTheme } from "./dialogs.js";
import { byId, count, prefersReducedMotion } from "./dom.js";
import { setUpShortcuts } from "./shortcuts.js";
import { showError } from "./messages.js";
import { SendQueue } from "./send-queue.js";
import { personName } from "./person-name.js";
import { ProjectPage } from "./project-page.js";

// Milliseconds between attempts to reach the service, and before unsent answers are mentioned.
const RETRY_PAUSE = 1500;
const UNSENT_DELAY = 800;

async function start() {
  let page = null;
  const openHelp = setUpHelp();
  setUpPerson();
  setUpTheme(() => page?.repaint());
  const api = new Api(personName, askToken);
  const sendQueue = new SendQueue(api, showUnsent, showError);

  const projects = await fetchProjects(api);
  const wanted = new URLSearchParams(location.search).get("project");
  const project = wanted === null ? projects[0] : projects.find(({ id }) => id === wanted);
  showProjectSelect(project, projects);
  if (!project) {
    for (const empty of document.querySelectorAll("main, .figures, #connection")) empty.hidden = true;
    const choose = projects.length ? " Choose one above." : "";
    throw new Error(
      wanted === null ? "There is no project yet." : `There is no project "${wanted}" that you may read.${choose}`,
    );
  }
  sendQueue.resume();
  page = new ProjectPage(api, project, sendQueue);

  for (const button of document.querySelectorAll("[data-answer]")) {
    button.addEventListener("click", () => page.answer(button.dataset.answer));
  }
  byId("undo").addEventListener("click", () => page.undo());
  byId("mark-differences").addEventListener("change", (event) =>
    byId("pair").classList.toggle("unmarked", !event.target.checked),
  );
  setUpShortcuts({
    s: () => press("[data-answer=same]"),
    d: () => press("[data-answer=different]"),
    " ": () => press("[data-answer=skip]"),
    z: () => press("#undo"),
    "?": openHelp,
  });
  await page.run();
}

/** Clicks a button for a key, with an animation. */
function press(selector) {
  const button = document.querySelector(selector);
  button.click();
  if (button.disabled || prefersReducedMotion()) return;
  button.animate([{ transform: "scale(0.96)" }, { transform: "none" }], 160);
}

async function fetchProjects(api) {
  for (;;) {
    try {
      return (await api.get("v1/projects")).projects;
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      byId("connection-text").textContent = "The service does not respond";
      await new Promise((resolve) => setTimeout(resolve, RETRY_PAUSE));
    }
  }
}

let unsentTimer = 0;

/** Reports unsent answers only if sending takes long. */
function showUnsent(unsent) {
  document.body.dataset.unsent = String(unsent);
  const message = byId("saved");
  const report = () => {
    const waiting = Number(document.body.dataset.unsent);
    const changes = count(waiting, "change");
    message.textContent = `${changes} not saved yet. Stored in this browser until the service responds.`;
  };
  if (unsent && message.textContent) report();
  else if (unsent) unsentTimer ||= setTimeout(report, UNSENT_DELAY);
  else {
    clearTimeout(unsentTimer);
    unsentTimer = 0;
    message.textContent = "";
  }
}

start().catch(showError);
