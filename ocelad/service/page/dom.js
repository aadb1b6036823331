// Helpers for elements and text. Texts are never inserted as HTML, because items may contain anything.

export const byId = (id) => document.getElementById(id);

/** Creates an element with attributes (null, false: omitted; true: empty) and children (elements or texts). */
export function element(tag, attributes = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) created.setAttribute(name, value === true ? "" : value);
  }
  created.append(...children.flat());
  return created;
}

/** Returns a colour of the style sheet in the current theme: [red, green, blue]. */
export function themeColour(name) {
  const probe = element("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const parts = getComputedStyle(probe)
    .color.match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
  probe.remove();
  return parts;
}

export const css = ([red, green, blue], opacity = 1) => `rgb(${red} ${green} ${blue} / ${opacity})`;

export const prefersReducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Wraps a function so that it runs once at a time; calls in the meantime cause one more run afterwards. */
export function coalesce(work, pause = 0) {
  let running = null;
  let again = false;
  const run = async () => {
    do {
      again = false;
      await work();
      if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
    } while (again);
    running = null;
  };
  return () => {
    if (running) again = true;
    else running = run().catch((error) => ((running = null), Promise.reject(error)));
    return running;
  };
}
