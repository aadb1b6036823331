// Which project the page is of.

import { byId, element } from "./dom.js";

/** Which project is shown, if any, and the choice where there is another. */
export function showChoice(project, projects) {
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
    ...projects.map(({ id, title: words }) => element("option", { value: id, selected: id === project?.id }, words)),
  );
  choice.addEventListener("change", () => location.assign(`?project=${encodeURIComponent(choice.value)}`));
}
