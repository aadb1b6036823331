// The page of a project's people: agreement, disagreements, figures, weights, settings, and the audit log.

import { showAgreement } from "./agreement-panel.js";
import { AuditPanel } from "./audit-panel.js";
import { Disagreements } from "./disagreements.js";
import { byId, coalesce } from "./dom.js";
import { showError } from "./messages.js";
import { showNoProject } from "./no-project.js";
import { patiently } from "./patience.js";
import { PeopleTable } from "./people-table.js";
import { setUpRepeats } from "./repeats-form.js";
import { openProject, openShell, start } from "./shell.js";
import { TeamApi } from "./team-api.js";
import { say } from "./words.js";

start(async () => {
  const { api } = openShell({ page: "team" });
  const { project: listed, projects } = await openProject(api, "team");
  if (!listed) {
    showNoProject(projects);
    return;
  }
  const project = await api.get(`v1/projects/${encodeURIComponent(listed.id)}`);
  const team = new TeamApi(api, project);
  const people = new PeopleTable(team, project, () => refresh());
  const reviews = ["review", "admin"].includes(project.permission);

  /** Shows the figures again; what it concerns may have changed. */
  const update = coalesce(async () => {
    const [report, page] = await patiently(() => Promise.all([team.agreement(), team.people()]));
    showAgreement(report, project.permission === "admin");
    people.show(page);
    if (!reviews) byId("disagreements-hint").textContent = say("disagreements.for-reviewers", { n: page.n_disagreements });
  });
  const refresh = () => update().catch(showError);

  document.querySelector("main").hidden = false;
  setUpRepeats(team, project);
  const disputes = reviews ? new Disagreements(api, team, project, refresh) : null;
  await Promise.all([update(), disputes?.load()]);
  const caller = await api.get("v1/me");
  if (caller.permissions["*"] === "admin") await new AuditPanel(team).load();
});
