// Applies the stored theme before anything is drawn, and offers to reload if a file of the page cannot be loaded.
// Modules run too late for both, so that this is a classic script.

document.documentElement.dataset.theme = localStorage.getItem("ocelad.theme") ?? "auto";

{
  // The files with the page's words may be those that cannot be loaded: only these sentences are not among them.
  const FAILED = {
    en: ["A part of the page could not be loaded.", "Reload"],
    de: ["Ein Teil der Seite konnte nicht geladen werden.", "Neu laden"],
  };
  const TRIED = "ocelad.reloaded";
  // After a reload that did not help within this many milliseconds, the person decides.
  const PATIENCE = 15_000;
  let failed = false;
  const onFailure = () => {
    if (failed) return;
    failed = true;
    if (Date.now() - Number(sessionStorage.getItem(TRIED)) > PATIENCE) {
      sessionStorage.setItem(TRIED, String(Date.now()));
      location.reload();
      return;
    }
    const language = localStorage.getItem("ocelad.language") ?? navigator.language.slice(0, 2);
    const [sentence, reload] = FAILED[language] ?? FAILED.en;
    const button = document.createElement("button");
    button.textContent = reload;
    button.addEventListener("click", () => location.reload());
    const notice = document.createElement("p");
    notice.setAttribute("role", "alert");
    notice.append(`${sentence} `, button);
    const show = () => document.body.prepend(notice);
    if (document.body) show();
    else addEventListener("DOMContentLoaded", show);
  };
  const isFile = ({ target }) => target instanceof Element && target.matches("script, link[rel=stylesheet]");
  addEventListener("error", (event) => isFile(event) && onFailure(), true);
  // Of the module with the words, which another module imports when it knows the language.
  addEventListener("ocelad-failed", onFailure);
}
