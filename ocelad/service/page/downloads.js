// Files for the person. They are fetched, not linked, because requests need headers.

import { element } from "./dom.js";

export function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  // The browser reads the address after the click.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Saves the response to a GET request. */
export async function download(api, path, name) {
  const response = await api.request(path, {});
  saveFile(await response.blob(), name);
}
