// Starts the answering page when the service has returned its projects.

import { byId, prefersReducedMotion } from "./dom.js";
import { showHeld } from "./held-answers.js";
import { showError, showMessage } from "./messages.js";
import { showNoProject } from "./no-project.js";
import { ProjectPage } from "./project-page.js";
import { SendQueue } from "./send-queue.js";
import { openProject, openShell, start } from "./shell.js";
import { setUpShortcuts } from "./shortcuts.js";
import { say } from "./words.js";

// Milliseconds before unsent answers are mentioned.
const UNSENT_DELAY = 800;

start(async () => {
  let page = null;
  const { api, openHelp } = openShell({ page: "index", recolour: () => page?.repaint() });
  const sendQueue = new SendQueue(api, {
    unsent: showUnsent,
    held: (lane) => showHeld(sendQueue, lane),
    dropped: showError,
    notStored: () => showMessage(say("unsent.not-stored")),
  });

  const { project, projects } = await openProject(api, "index");
  // Also those of projects that no longer exist: they are kept until the person decides.
  sendQueue.resume();
  if (!project) {
    byId("connection").hidden = true;
    showNoProject(projects);
    return;
  }
  document.querySelector("main").hidden = false;
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
});

/** Clicks a button for a key, with an animation. */
function press(selector) {
  const button = document.querySelector(selector);
  button.click();
  if (button.disabled || prefersReducedMotion()) return;
  button.animate([{ transform: "scale(0.96)" }, { transform: "none" }], 160);
}

let unsentTimer = 0;

/** Reports unsent answers only if sending takes long. */
function showUnsent(unsent) {
  document.body.dataset.unsent = String(unsent);
  const message = byId("saved");
  if (!message) return;
  const report = () => (message.textContent = say("unsent", { n: Number(document.body.dataset.unsent) }));
  if (unsent && message.textContent) report();
  else if (unsent) unsentTimer ||= setTimeout(report, UNSENT_DELAY);
  else {
    clearTimeout(unsentTimer);
    unsentTimer = 0;
    message.textContent = "";
  }
}
