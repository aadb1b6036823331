// What went wrong, in the service's own sentence, until it is closed.

import { byId, element } from "./dom.js";
import { Unreachable } from "./api.js";

/** An unreachable service is told by the connection's lamp, once, and not by each request that fails. */
export function showProblem(problem) {
  if (problem instanceof Unreachable || problem.name === "AbortError") return;
  const frame = byId("problems");
  const words = sentence(problem.message);
  if ([...frame.children].some((notice) => notice.firstChild.textContent === words)) return;
  const close = element("button", { type: "button", class: "quiet icon", "aria-label": "Close this message" }, "×");
  const notice = element("p", { class: "problem" }, element("span", {}, words), close);
  close.addEventListener("click", () => notice.remove());
  frame.append(notice);
}

/** The service's sentences begin small, for programs to put something before them. */
export const sentence = (words) => words[0].toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");

export const tell = (words) => (byId("told").textContent = words);
