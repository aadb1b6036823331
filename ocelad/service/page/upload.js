// Sending a file with progress, which fetch cannot report; and an area that files can be dropped on.

import { RequestError, Unreachable } from "./api.js";
import { say } from "./words.js";

/** Sends a file as the body of a POST request and returns a promise of the JSON of the response.
 *  progress(share): called while the bytes are sent; 1: the service is working on them. */
export async function uploadFile(api, path, file, progress = () => {}) {
  // Asks for a token, if one is required, before a large file is sent.
  await api.get("v1/me");
  const token = sessionStorage.getItem("ocelad.token");
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Ocelad-Person", encodeURIComponent(api.person()));
    if (token) request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.upload.addEventListener("progress", ({ loaded, total }) => progress(total ? loaded / total : 1));
    request.upload.addEventListener("load", () => progress(1));
    request.addEventListener("error", () => reject(new Unreachable()));
    request.addEventListener("load", () => {
      const body = parse(request.responseText);
      if (request.status < 400 && body !== null) resolve(body);
      else reject(rejection(request, body));
    });
    request.send(file);
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function rejection(request, body) {
  const unknown = { code: "unknown", message: say("service.status", { status: request.status }) };
  const retryAfter = Number(request.getResponseHeader("Retry-After")) || null;
  return new RequestError(request.status, body?.error ?? unknown, retryAfter);
}

/** Calls choose(file) for each file that is chosen, null for none, or dropped on an area; files that miss it do not
 *  replace the page. */
export function setUpFileInput(zone, input, choose) {
  for (const type of ["dragover", "drop"]) addEventListener(type, (event) => event.preventDefault());
  zone.addEventListener("dragover", () => zone.classList.add("over"));
  for (const type of ["dragleave", "drop"]) zone.addEventListener(type, () => zone.classList.remove("over"));
  zone.addEventListener("drop", ({ dataTransfer }) => {
    if (!dataTransfer.files.length) return;
    input.files = dataTransfer.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
  input.addEventListener("change", () => choose(input.files[0] ?? null));
  // The person was faster than the page.
  if (input.files.length) choose(input.files[0]);
}
