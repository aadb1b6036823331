// The banner about answers that the service refused: they stay in the browser until the person decides.

import { askFirst } from "./dialogs.js";
import { saveFile } from "./downloads.js";
import { hideBanner, sentence, showBanner } from "./messages.js";
import { say } from "./words.js";

/** Shows the refused requests of a lane {project, held, refusal} of the queue. */
export function showHeld(queue, lane) {
  const id = `held ${lane.project}`;
  const n = lane.held.length;
  const total = Number(document.body.dataset.held ?? 0);
  document.body.dataset.held = String(total - (shown.get(id) ?? 0) + n);
  shown.set(id, n);
  if (!n) {
    hideBanner(id);
    return;
  }
  showBanner(
    id,
    say("held.waiting", { n, project: lane.project }),
    [
      [say("held.retry"), () => queue.retryHeld(lane)],
      [say("held.save"), () => saveHeld(queue, lane)],
      [say("held.discard"), () => discard(queue, lane)],
    ],
    lane.refusal ? sentence(lane.refusal.message) : "",
  );
}

// The number of requests in each banner.
const shown = new Map();

function saveHeld(queue, lane) {
  const text = JSON.stringify(queue.heldAsJson(lane), null, 2);
  saveFile(new Blob([text], { type: "application/json" }), `${lane.project}-answers.json`);
}

async function discard(queue, lane) {
  const n = lane.held.length;
  const texts = [say("held.discard-title", { n }), say("held.discard-text"), say("held.discard")];
  if (await askFirst(...texts)) queue.discardHeld(lane);
}
