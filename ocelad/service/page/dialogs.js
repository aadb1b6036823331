// The dialogs for help, the person's name and a token, a question before something is lost, and the theme.

import { byId, element } from "./dom.js";
import { isPersonName, personName, savePersonName, usePersonName } from "./person-name.js";
import { say } from "./words.js";

const THEMES = ["auto", "light", "dark"];

/** Closes a dialog by a click on its backdrop or on [data-close]. */
export function prepareDialog(dialog) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });
  return dialog;
}

/** Returns a function that opens the help, if the page has one. */
export function setUpHelp() {
  const dialog = byId("help-dialog");
  if (!dialog) return () => {};
  prepareDialog(dialog);
  const open = () => dialog.open || dialog.showModal();
  byId("help").addEventListener("click", open);
  return open;
}

export function setUpPerson() {
  const dialog = prepareDialog(byId("person-dialog"));
  const [input, refused] = [byId("person-input"), byId("person-refused")];
  const show = () => (byId("person-name").textContent = personName());
  show();
  byId("person").addEventListener("click", () => {
    input.value = personName();
    refused.textContent = "";
    dialog.showModal();
    if (input.offsetParent) input.select();
  });
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = input.value.trim().normalize("NFC");
    if (!isPersonName(name)) {
      refused.textContent = say("person.refused");
      return;
    }
    savePersonName(name);
    show();
    dialog.close();
  });
}

/** Returns a promise of a token. The dialog cannot be cancelled, because nothing can be shown without a token. login: the
 *  path where the person can log in instead, or null. */
export function askToken(rejected, login = null) {
  const dialog = byId("token-dialog");
  const input = byId("token-input");
  byId("token-reason").textContent = say(rejected ? "token.rejected" : "token.required");
  input.value = "";
  const link = byId("login-link");
  link.hidden = login === null;
  const next = `${location.pathname}${location.search}`;
  if (login !== null) link.href = `${login.replace(/^\//, "")}?${new URLSearchParams({ next })}`;
  dialog.showModal();
  dialog.oncancel = (event) => event.preventDefault();
  return new Promise((resolve) => {
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      dialog.close();
      resolve(input.value.trim());
    };
  });
}

/** Shows who has logged in, {name, session}: the service knows the name, so that the person does not choose one. */
export function setUpLoggedIn({ name, session }, api) {
  usePersonName(name);
  byId("person-name").textContent = name;
  byId("person-title").textContent = name;
  byId("person-dialog").classList.add("logged-in");
  const logOut = byId("log-out");
  logOut.hidden = !session;
  logOut.addEventListener("click", async () => {
    await api.request("v1/logout", { method: "POST" });
    location.reload();
  });
}

/** Asks before something cannot be undone; returns a promise of whether the person wants it. */
export function askFirst(title, text, action) {
  const confirm = element("button", { type: "button", class: "answer different" }, action);
  const cancel = element("button", { type: "button", class: "answer plain", "data-close": true, autofocus: true });
  cancel.textContent = say("cancel");
  const dialog = element(
    "dialog",
    { "aria-labelledby": "ask-first-title" },
    element("h2", { id: "ask-first-title" }, title),
    element("p", {}, text),
    element("div", { class: "dialog-end" }, cancel, confirm),
  );
  document.body.append(prepareDialog(dialog));
  dialog.showModal();
  return new Promise((resolve) => {
    let wanted = false;
    confirm.addEventListener("click", () => {
      wanted = true;
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(wanted);
    });
  });
}

/** changed(): called when the colours change. */
export function setUpTheme(changed) {
  const root = document.documentElement;
  const button = byId("theme");
  const update = () => {
    const label = say(`theme.${root.dataset.theme}`);
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  if (!THEMES.includes(root.dataset.theme)) root.dataset.theme = THEMES[0];
  update();
  button.addEventListener("click", () => {
    root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    localStorage.setItem("ocelad.theme", root.dataset.theme);
    update();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}
