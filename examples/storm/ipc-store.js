/**
 * A store of one's own, in two halves: `serveStore` in the process that has the records, `ipcStore` in each process that
 * wants to reach them. It keeps nothing and decides nothing: each step of the contract is one question and one answer,
 * and stays as atomic as it is on the other side.
 */
import { isNevertwiceError, NevertwiceError } from "nevertwice";

/** @typedef {import("nevertwice").Store} Store */
/** @typedef {import("./channel.js").Channel} Channel */

/**
 * The half that guards are given. A process that loses its parent loses its store: every call is then rejected, and the
 * guard answers `unavailable`.
 *
 * @param {Channel} channel
 * @returns {Store}
 */
export function ipcStore(channel) {
  /** @type {Map<number, () => void>} */
  const wakers = new Map();
  let lastWatch = 0;
  channel.answer("store.wake", (watch) => wakers.get(watch)?.());

  /**
   * @param {string} method
   * @param {unknown} request
   */
  async function step(method, request) {
    const { answer, refusal } = await channel.ask(`store.${method}`, request);
    if (refusal !== undefined) throw new NevertwiceError(refusal.code, refusal.message);
    return answer;
  }

  // Member by member: whatever else a request may carry, such as an AbortSignal, cannot be sent.
  return {
    claim: ({ id, parts, fingerprint, token, leaseMs, retentionMs, hold, takeover }) =>
      step("claim", { id, parts, fingerprint, token, leaseMs, retentionMs, hold, takeover }),
    complete: ({ id, token, outcome, retentionMs }) => step("complete", { id, token, outcome, retentionMs }),
    abandon: ({ id, token, as }) => step("abandon", { id, token, as }),
    renew: ({ id, token, leaseMs }) => step("renew", { id, token, leaseMs }),
    read: (id) => step("read", id),
    purge: (limit) => step("purge", limit),
    list: ({ namespace, scope, state, limit, after }) =>
      step("list", { namespace, scope, state, limit, after }),
    forget: ({ id, fence }) => step("forget", { id, fence }),

    async watch({ id, wake }) {
      const watch = ++lastWatch;
      // Before the question, so that a wake-up on the heels of its answer finds somebody.
      wakers.set(watch, wake);
      await step("watch", { id, watch });
      return () => {
        wakers.delete(watch);
        step("unwatch", watch).catch(() => {});
      };
    },

    // The records belong to the other side, which closes them; here there is only the watching to end.
    async close() {
      for (const watch of wakers.keys()) step("unwatch", watch).catch(() => {});
      wakers.clear();
    },
  };
}

/**
 * The half that has the records: answers for `store` on one process's channel, until that process is gone.
 *
 * @param {Store} store
 * @param {Channel} channel
 */
export function serveStore(store, channel) {
  const { watch, list, forget } = store;
  if (watch === undefined || list === undefined || forget === undefined)
    throw new TypeError("this store has no watch, list or forget to forward");
  /** @type {Map<number, () => void>} */
  const watches = new Map();

  /**
   * @param {string} method
   * @param {(request: any) => Promise<unknown>} step
   */
  function serve(method, step) {
    channel.answer(`store.${method}`, async (request) => {
      try {
        return { answer: await step(request) };
      } catch (error) {
        // A refusal must arrive as one: a guard repeats a call that failed, and never one that was refused.
        if (!isNevertwiceError(error)) throw error;
        return { refusal: { code: error.code, message: error.message.slice(`${error.code}: `.length) } };
      }
    });
  }

  serve("claim", (request) => store.claim(request));
  serve("complete", (request) => store.complete(request));
  serve("abandon", (request) => store.abandon(request));
  serve("renew", (request) => store.renew(request));
  serve("read", (id) => store.read(id));
  serve("purge", (limit) => store.purge(limit));
  serve("list", (request) => list.call(store, request));
  serve("forget", (request) => forget.call(store, request));
  serve("watch", async ({ id, watch: number }) => {
    const wake = () => void channel.ask("store.wake", number).catch(() => {});
    watches.set(number, await watch.call(store, { id, wake }));
  });
  serve("unwatch", async (number) => {
    watches.get(number)?.();
    watches.delete(number);
  });
  // A killed process ends no watch of its own.
  channel.onGone(() => {
    for (const end of watches.values()) end();
    watches.clear();
  });
}
