/**
 * A saga: steps that run once, in order, and are undone in reverse order if the other side refuses one of them. Run it as
 * often as you like, from as many processes as you like, until it returns.
 */

/** The other side refused the step and did nothing. After any other error the outcome is unknown. */
export class Refused extends Error {}

/** The outcome is not known yet. Run the saga again later. */
export class NotYet extends Error {}

/** The retention is longer than the time in which the saga may run again. */
const POLICY = /** @type {const} */ ({
  retentionMs: 30 * 86_400_000,
  onCompleted: "replay",
  onFailure: "release",
  onLapsed: "takeover",
  onUnavailable: "refuse",
});

/**
 * @typedef {object} Saga
 * @property {string} key of the saga, for example an order's id
 * @property {readonly string[]} steps
 * @property {(operation: string, key: string) => Promise<unknown>} act runs a step, or undoes it (`undo …`). It
 *   passes the key, which is the same on every attempt, to the other side. Throws `Refused` if the step is refused.
 */

/**
 * Rejects with `NotYet`, or with what `act` threw, if the saga must run again.
 *
 * @param {import("nevertwice").Guard} guard
 * @param {Saga} saga
 * @returns {Promise<"done" | "undone">}
 */
export async function runSaga(guard, { key, steps, act }) {
  /**
   * @template T
   * @param {string} operation
   * @param {(attempt: import("nevertwice").Attempt) => Promise<T>} work
   */
  async function once(operation, work) {
    const result = await guard.tryRun({ ...POLICY, operation, key }, work);
    if (result.status === "replayed" || (result.status === "ran" && result.recorded)) return result.value;
    // pending, unavailable, unknown, lease-lost, or done but not recorded yet: none of these means that a step failed.
    throw new NotYet(`${operation} of ${key} is not known yet: ${result.status}`);
  }

  /** @param {string} step */
  const take = (step) =>
    once(step, async (attempt) => {
      try {
        await act(step, attempt.deriveKey("other side"));
        return "taken";
      } catch (error) {
        if (error instanceof Refused) return "refused";
        throw error;
      }
    });

  // The decision is made once and recorded before anything is undone. Every later run follows it.
  const { end, undo } = await once("decide", async () => {
    for (const [index, step] of steps.entries())
      if ((await take(step)) === "refused")
        return { end: /** @type {const} */ ("undone"), undo: steps.slice(0, index).reverse() };
    return { end: /** @type {const} */ ("done"), undo: [] };
  });
  for (const step of undo)
    await once(`undo ${step}`, async (attempt) => {
      await act(`undo ${step}`, attempt.deriveKey("other side"));
      return "undone";
    });
  return end;
}
