// Elements, made and found. Texts go in as text, never as HTML: items may hold anything.

export const byId = (id) => document.getElementById(id);

/** An element with attributes (null and false: without it; true: empty) and children (elements or texts). */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat());
  return made;
}

/** A colour of the style sheet, as the theme has it now: [red, green, blue]. */
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

export const lessMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A number in few characters: 0.0123, 4.57, 1,234. */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1000) return Math.round(number).toLocaleString("en");
  if (size >= 0.001 || size === 0) return String(Number(number.toPrecision(3)));
  return number.toExponential(1);
}

/** Two numbers in few characters, and as many more as it takes to tell them apart. */
export function shortApart(left, right) {
  for (let digits = 3; left !== right && digits <= 15; digits++) {
    const both = [left, right].map((number) =>
      digits === 3 ? short(number) : String(Number(number.toPrecision(digits))),
    );
    if (both[0] !== both[1]) return both;
  }
  return [short(left), short(right)];
}

export const percent = (share) =>
  `${share < 0.0995 && share > 0 ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;

/** "one answer", "12 answers". */
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** Runs what is asked for, one at a time; asked again meanwhile, once more afterwards. Only the latest matters. */
export function latestOnly(work, pause = 0) {
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
    else running = run().catch((problem) => ((running = null), Promise.reject(problem)));
    return running;
  };
}
