// What went wrong, in the service's own sentence, until it is closed.

import { byId, element } from "./dom.js";
import { Unreachable } from "./api.js";

/** An unreachable service is told by the connection's lamp, once, and not by each request that fails. */
export function showProblem(problem) {
  if (problem instanceof Unreachable || problem.name === "AbortError") return;
  const frame = byId("problems");
  if ([...frame.children].some((notice) => notice.firstChild.textContent === problem.message)) return;
  const close = element("button", { type: "button", class: "quiet icon", "aria-label": "Close this message" }, "×");
  const notice = element("p", { class: "problem" }, element("span", {}, problem.message), close);
  close.addEventListener("click", () => notice.remove());
  frame.append(notice);
}

export const tell = (sentence) => (byId("told").textContent = sentence);
