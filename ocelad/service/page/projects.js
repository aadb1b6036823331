// The page of all projects: list, create, change, archive, copy, delete.

import { ProjectList } from "./project-list.js";
import { ProjectsApi } from "./projects-api.js";
import { openShell, showCaller, start } from "./shell.js";

start(async () => {
  const { api } = openShell({ page: "projects" });
  await new ProjectList(new ProjectsApi(api)).load();
  await showCaller(api);
});
