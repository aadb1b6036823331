// Notices that the service has another version of the page than the one that is open, and offers to reload.

import { showBanner } from "./messages.js";
import { say } from "./words.js";

// The files of this page are in a folder with the digest of all of them.
const OWN_DIGEST = new URL(".", import.meta.url).pathname.split("/").at(-2);

/** Checks the version when the person comes back to the page. */
export function watchVersion(api) {
  document.addEventListener("visibilitychange", () => document.hidden || checkVersion(api).catch(() => {}));
}

export async function checkVersion(api) {
  const { page } = await api.get("v1/health");
  if (!page || page === OWN_DIGEST) return;
  showBanner("version", say("version.differs"), [[say("version.reload"), () => location.reload()]]);
}
