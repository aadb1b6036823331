// The question of a project, in its own words or in those of the page.

import { say } from "./words.js";

// What the service says of a project that has no question of its own.
const DEFAULT_QUESTION = "Are these two the same?";

export const questionOf = ({ question }) => (question && question !== DEFAULT_QUESTION ? question : say("question"));
