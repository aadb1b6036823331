// The share of pairs that are asked of several people.

import { byId, element } from "./dom.js";
import { announce } from "./messages.js";
import { formatPercent } from "./numbers.js";
import { clearRefusals, showRefusal } from "./refusals.js";
import { say } from "./words.js";

const SHARES = [0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1];

/** Shows the settings of a project to somebody who may change them. */
export function setUpRepeats(team, project) {
  if (project.permission !== "admin") return;
  const shares = [...new Set([...SHARES, project.repeat_share])].sort((a, b) => a - b);
  byId("repeat-share").append(
    ...shares.map((share) =>
      element(
        "option",
        { value: share, selected: share === project.repeat_share },
        share ? formatPercent(share) : say("repeats.never"),
      ),
    ),
  );
  byId("repeat-people").value = project.repeat_people;
  byId("repeats").hidden = false;
  const form = byId("repeats-form");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearRefusals(form);
    try {
      await team.change({
        repeat_share: Number(byId("repeat-share").value),
        repeat_people: Number(byId("repeat-people").value),
      });
      announce(say("repeats.saved"));
      form.querySelector("[type=submit]").textContent = say("repeats.saved");
    } catch (error) {
      showRefusal(form, error);
    }
  });
  form.addEventListener("input", () => (form.querySelector("[type=submit]").textContent = say("save")));
}
