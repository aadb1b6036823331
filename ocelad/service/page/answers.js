// The page of a project's answers.

import { AnswerList } from "./answer-list.js";
import { AnswersApi } from "./answers-api.js";
import { byId } from "./dom.js";
import { ImportForm } from "./import-form.js";
import { showError } from "./messages.js";
import { showNoProject } from "./no-project.js";
import { openProject, openShell, start } from "./shell.js";

start(async () => {
  const { api } = openShell({ page: "answers" });
  const { project, projects } = await openProject(api, "answers");
  if (!project) {
    showNoProject(projects);
    return;
  }
  const answers = new AnswersApi(api, project);
  const list = new AnswerList(api, answers, project);
  document.querySelector("main").hidden = false;
  if (project.permission === "admin") {
    new ImportForm(answers, () => list.load().catch(showError));
    byId("import").hidden = false;
  }
  await list.load();
});
