// What all pages share: the header with navigation, project, language, person and theme; messages; the dialogs for a
// name and a token. A page is NAME.html with a <main>, and a module that calls openShell; see projects.html.

import { Api, Unreachable } from "./api.js";
import { askToken, setUpHelp, setUpLoggedIn, setUpPerson, setUpTheme } from "./dialogs.js";
import { byId, element } from "./dom.js";
import { showError } from "./messages.js";
import { personName } from "./person-name.js";
import { watchVersion } from "./version.js";
import { LANGUAGES, chooseLanguage, language, say, translate } from "./words.js";

/** The pages in the order of the navigation; the service says which of them exist. */
const PAGES = ["index", "projects", "answers", "team"];
// Milliseconds between attempts to reach the service.
const RETRY_PAUSE = 1500;

const pathOf = (page) => (page === "index" ? "./" : page);

/** Returns the address of a page, of a project or of none. */
export function addressOf(page, project = null) {
  return project === null ? pathOf(page) : `${pathOf(page)}?project=${encodeURIComponent(project)}`;
}

/** Which pages there are. */
export const pageExists = (page) => document.documentElement.dataset.pages.split(" ").includes(page);

/** The project that the address names; null: none. */
export const wantedProject = () => new URLSearchParams(location.search).get("project");

/** Shows the header, and writes the words into the page. page: the name of its file; recolour(): called when the
 *  colours change. Returns {api, openHelp}. */
export function openShell({ page, recolour = () => {} }) {
  const main = document.querySelector("main");
  main.id ||= "main";
  document.body.prepend(skipLink(main), top(page), messageFrames());
  document.body.append(personDialog(), tokenDialog());
  translate();
  document.documentElement.classList.add("ready");
  publishHeight("--top", byId("top"));
  if (byId("answers")) publishHeight("--answers", byId("answers"));
  setUpPerson();
  setUpTheme(recolour);
  byId("language").addEventListener("change", ({ target }) => chooseLanguage(target.value));
  const openHelp = setUpHelp();
  const api = new Api(personName, askToken);
  watchVersion(api);
  return { api, openHelp };
}

/** Runs the main function of a page; an error is shown. */
export const start = (main) => main().catch(showError);

/** Returns a promise of {project, projects}: the wanted one or the first, undefined if there is none, and all that the
 *  person may read. Waits until the service responds, and shows the project in the header. */
export async function openProject(api, page) {
  const { projects, next } = await fetchProjects(api);
  const wanted = wantedProject();
  let project = wanted === null ? projects[0] : projects.find(({ id }) => id === wanted);
  if (!project && wanted !== null) project = await findProject(api, wanted, next ?? null);
  showProject(page, project, projects);
  await showCaller(api);
  return { project, projects };
}

/** Returns a promise of a project that is archived, or not on the first page of the list; undefined: there is none. */
async function findProject(api, wanted, next) {
  const all = await api.get("v1/projects", { archived: true });
  const found = all.projects.find(({ id }) => id === wanted);
  if (found || (next === null && (all.next ?? null) === null)) return found;
  return api.get(`v1/projects/${encodeURIComponent(wanted)}`).catch(() => undefined);
}

/** Shows the name of a person who has logged in. Returns a promise of the caller; null: unknown. */
export async function showCaller(api) {
  const caller = await api.get("v1/me").catch(() => null);
  if (caller?.personal) setUpLoggedIn(caller, api);
  return caller;
}

async function fetchProjects(api) {
  for (;;) {
    try {
      return await api.get("v1/projects");
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      byId("connection").hidden = false;
      byId("connection-text").textContent = say("connection.none");
      await new Promise((resolve) => setTimeout(resolve, RETRY_PAUSE));
    }
  }
}

/** Shows the title of the project, or a selection if there are others; the links of the navigation keep it. */
function showProject(page, project, projects) {
  const [title, choice] = [byId("project-title"), byId("project-choice")];
  if (project) {
    document.title = `${project.title} · ocelad`;
    title.textContent = project.title;
    for (const link of document.querySelectorAll("#pages a")) link.href = addressOf(link.dataset.page, project.id);
  }
  if (!projects.some(({ id }) => id !== project?.id)) return;
  title.hidden = true;
  choice.hidden = false;
  const listed = !project || projects.some(({ id }) => id === project.id) ? projects : [project, ...projects];
  if (!project) choice.append(element("option", { value: "", selected: true, disabled: true }, say("project.choose")));
  choice.append(
    ...listed.map(({ id, title: label }) => element("option", { value: id, selected: id === project?.id }, label)),
  );
  choice.addEventListener("change", () => location.assign(addressOf(page, choice.value)));
}

/** Keeps a variable of the style sheet at the height of an element. */
function publishHeight(variable, measured) {
  const publish = () => document.documentElement.style.setProperty(variable, `${measured.offsetHeight}px`);
  new ResizeObserver(publish).observe(measured);
}

// The parts of the header.

/** What stays at the top of the window: the header, and banners. */
const top = (page) =>
  element(
    "div",
    { class: "top", id: "top" },
    header(page),
    element("div", { id: "banners", class: "banners", role: "region", "data-words-label": "messages.label" }),
  );

const skipLink = (main) => {
  const target = main.querySelector("[data-skip-target]") ?? main;
  return element("a", { class: "skip-link", href: `#${target.id}`, "data-words": "skip-link" });
};

function header(page) {
  const links = PAGES.filter((name) => name === page || pageExists(name)).map((name) =>
    element("a", {
      href: addressOf(name, wantedProject()),
      "data-page": name,
      "data-words": `pages.${name}`,
      "aria-current": name === page && "page",
    }),
  );
  return element(
    "header",
    { class: "bar" },
    element("a", { class: "brand", href: "./", "data-words-label": "home" }, mark(), element("span", {}, "ocelad")),
    element(
      "div",
      { class: "project" },
      element("span", { class: "project-title", id: "project-title" }),
      element("select", { id: "project-choice", "data-words-label": "project.label", hidden: true }),
    ),
    element("nav", { class: "pages", id: "pages", "data-words-label": "pages.label" }, links),
    tools(),
  );
}

function tools() {
  const connection = element(
    "span",
    { class: "connection", id: "connection", role: "status" },
    element("span", { class: "status-dot", "aria-hidden": "true" }),
    element("span", { id: "connection-text", "data-words": "connection.starting" }),
  );
  connection.hidden = !("connection" in document.body.dataset);
  const languages = element(
    "select",
    { id: "language", class: "language", "data-words-label": "language.label" },
    Object.entries(LANGUAGES).map(([code, name]) =>
      element("option", { value: code, selected: code === language, lang: code, label: code.toUpperCase() }, name),
    ),
  );
  const person = element(
    "button",
    { type: "button", class: "quiet", id: "person", "data-words-title": "person.hint" },
    icon("M3.5 17a6.5 6.5 0 0 1 13 0", "M13.5 6.5a3.5 3.5 0 1 1-7 0a3.5 3.5 0 1 1 7 0"),
    element("span", { class: "visually-hidden", "data-words": "person.you" }),
    element("span", { id: "person-name" }),
  );
  const theme = element(
    "button",
    { type: "button", class: "quiet icon", id: "theme" },
    icon("M17 10a7 7 0 1 1-14 0a7 7 0 1 1 14 0", "M10 3v14M12.5 4v12M15 6v8"),
  );
  const help = element("button", { type: "button", class: "quiet icon", id: "help", "data-words-label": "help.open" }, "?");
  help.hidden = !byId("help-dialog");
  return element("div", { class: "tools" }, connection, languages, person, theme, help);
}

function svg(viewBox, attributes, ...children) {
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawn.setAttribute("viewBox", viewBox);
  drawn.setAttribute("aria-hidden", "true");
  for (const [name, value] of Object.entries(attributes)) drawn.setAttribute(name, value);
  for (const [tag, shape] of children) {
    const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(shape)) part.setAttribute(name, value);
    drawn.append(part);
  }
  return drawn;
}

/** Returns an icon of lines. */
export const icon = (...paths) => svg("0 0 20 20", {}, ...paths.map((d) => ["path", { d, class: "icon-line" }]));

const mark = () =>
  svg(
    "0 0 32 32",
    { class: "mark" },
    ["circle", { class: "mark-a", cx: 12, cy: 16, r: 8 }],
    ["circle", { class: "mark-b", cx: 20, cy: 16, r: 8 }],
  );

// Messages and dialogs.

function messageFrames() {
  const frames = document.createDocumentFragment();
  frames.append(
    element("div", { id: "errors", class: "errors", role: "alert" }),
    element("p", { id: "announcement", class: "visually-hidden", role: "status" }),
  );
  return frames;
}

function personDialog() {
  return element(
    "dialog",
    { id: "person-dialog", "aria-labelledby": "person-title" },
    element(
      "form",
      {},
      element("h2", { id: "person-title", "data-words": "person.title" }),
      element("p", { class: "if-logged-in", "data-words": "person.logged-in" }),
      element(
        "div",
        { class: "if-free" },
        element("p", { "data-words": "person.purpose" }),
        element("label", { for: "person-input", "data-words": "person.label" }),
        element("input", { id: "person-input", required: true, autocomplete: "nickname", dir: "auto" }),
        element("p", { id: "person-refused", class: "refused", role: "alert" }),
      ),
      element(
        "div",
        { class: "dialog-end" },
        element("button", { type: "button", class: "answer plain", "data-close": true, "data-words": "cancel" }),
        element("button", { type: "submit", class: "answer same if-free", "data-words": "save" }),
        element("button", { type: "button", class: "answer same if-logged-in", id: "log-out", "data-words": "log-out" }),
      ),
    ),
  );
}

function tokenDialog() {
  return element(
    "dialog",
    { id: "token-dialog", "aria-labelledby": "token-title" },
    element(
      "form",
      {},
      element("h2", { id: "token-title", "data-words": "token.title" }),
      element("p", { id: "token-reason" }),
      element("a", { id: "login-link", class: "answer same", "data-words": "log-in", hidden: true }),
      element("label", { for: "token-input", "data-words": "token.label" }),
      element("input", {
        id: "token-input",
        type: "password",
        required: true,
        autocomplete: "off",
        spellcheck: "false",
        placeholder: "ocelad_…",
      }),
      element("p", { class: "hint", "data-words": "token.hint" }),
      element(
        "div",
        { class: "dialog-end" },
        element("button", { type: "submit", class: "answer same", "data-words": "continue" }),
      ),
    ),
  );
}
