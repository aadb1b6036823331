// The id of a project: lowercase letters, digits, - and _.

const MAX_LENGTH = 64;

/** Returns an id for a title or the name of a file; "project" if it has no letters or digits of English. */
export function idFor(title) {
  const plain = title.normalize("NFKD").replace(/\p{M}/gu, "").replace(/ß/g, "ss").toLowerCase();
  const id = plain.replace(/[^a-z0-9_]+/g, "-").replace(/^[-_]+|-+$/g, "").slice(0, MAX_LENGTH);
  return id || "project";
}

/** Returns an id that is not taken: with a number, if it must. */
export function freeId(title, taken) {
  const id = idFor(title);
  for (let number = 1; ; number++) {
    const tried = number === 1 ? id : `${id.slice(0, MAX_LENGTH - 6)}-${number}`;
    if (!taken.has(tried)) return tried;
  }
}
