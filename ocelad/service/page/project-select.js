// The selection of a project.

import { byId, element } from "./dom.js";

/** Shows the title of the project, or a selection if there are others. */
export function showProjectSelect(project, projects) {
  const [title, choice] = [byId("project-title"), byId("project-choice")];
  if (project) {
    document.title = `${project.title} · ocelad`;
    title.textContent = project.title;
  }
  if (!projects.some(({ id }) => id !== project?.id)) return;
  title.hidden = true;
  choice.hidden = false;
  if (!project) choice.append(element("option", { value: "", selected: true, disabled: true }, "Choose a project"));
  choice.append(
    ...projects.map(({ id, title: label }) => element("option", { value: id, selected: id === project?.id }, label)),
  );
  choice.addEventListener("change", () => location.assign(`?project=${encodeURIComponent(choice.value)}`));
}
