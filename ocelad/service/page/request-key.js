// Keys of requests: the service stores a request with the same key once.

/** Returns a random key. Browsers lack randomUUID on plain HTTP from other hosts. */
export const newKey = () =>
  crypto.randomUUID?.() ??
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
