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

/** Formats a number with three digits: 0.0123, 4.57, 1,234. */
export function formatNumber(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1000) return Math.round(number).toLocaleString("en");
  if (size >= 0.001 || size === 0) return String(Number(number.toPrecision(3)));
  return number.toExponential(1);
}

/** Formats two numbers with at least three digits, and with enough digits to differ. */
export function formatDistinct(left, right) {
  for (let digits = 3; left !== right && digits <= 15; digits++) {
    const both = [left, right].map((number) =>
      digits === 3 ? formatNumber(number) : String(Number(number.toPrecision(digits))),
    );
    if (both[0] !== both[1]) return both;
  }
  return [formatNumber(left), formatNumber(right)];
}

export const formatPercent = (share) =>
  `${share < 0.0995 && share > 0 ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;

/** Returns "1 answer" or "12 answers". */
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

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
