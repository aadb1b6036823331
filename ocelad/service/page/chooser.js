// Which project the page is of.

import { byId, element } from "./dom.js";

/** Which project is shown, and the choice where there are several. */
export function showChoice(project, projects) {
  document.title = `${project.title} · ocelad`;
  const [title, choice] = [byId("project-title"), byId("project-choice")];
  title.textContent = project.title;
  if (projects.length < 2) return;
  title.hidden = true;
  choice.hidden = false;
  choice.append(
    ...projects.map(({ id, title: words }) => element("option", { value: id, selected: id === project.id }, words)),
  );
  choice.addEventListener("change", () => location.assign(`?project=${encodeURIComponent(choice.value)}`));
}
