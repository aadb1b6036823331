// Why a pair was chosen, in the words of the page.

import { knows, say } from "./words.js";

// The service has several reasons for the sources "settle" and "given"; its sentences begin like this.
const BEGINNINGS = {
  "Answers contradict each other: most say that these two are different": "reason.one-pile",
  "Answers contradict each other: most say that these two are the same": "reason.two-piles",
  "Answers about the groups of these two contradict": "reason.settle-groups",
};

/** Returns the reason for a pair; that of the service, if the page has no words for it. */
export function reasonFor({ source, reason }) {
  const [, special] = Object.entries(BEGINNINGS).find(([beginning]) => reason.startsWith(beginning)) ?? [];
  const key = special ?? `reason.${source}`;
  return knows(key) ? say(key) : reason;
}
