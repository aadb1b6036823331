// Requests that the service cannot answer yet, for example while it learns again after an erasure.

// Seconds between attempts, if the service does not name them, and the number of attempts.
const PAUSE = 1;
const ATTEMPTS = 60;

/** Returns a promise of the result of work(), which is repeated while the service is busy. */
export async function patiently(work) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!error.isTemporary || attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.min(error.retryAfter ?? PAUSE, 5)));
    }
  }
}
