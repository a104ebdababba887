/** Next to the store: what it granted, completed and gave up, seen as each step was applied. The doors are judged by it. */

/** @typedef {import("../../../packages/nevertwice/src/core/store.ts").Store} Store */
/** @typedef {import("../../../packages/nevertwice/src/core/store.ts").AbandonAs} AbandonAs */
/** @typedef {import("./virtual-time.js").World} World */

/**
 * @typedef {object} LedgerAttempt
 * @property {string} subject
 * @property {string} id
 * @property {string} token
 * @property {string} owner the process that asked for it
 * @property {number} fence
 * @property {number} number
 * @property {AttemptEnd | undefined} end
 * @property {boolean} isOvertaken
 * @property {boolean} isLate a copy of its claim was granted after its process had told the store how the attempt ended
 */

/** @typedef {{ readonly kind: "completed", readonly outcome: string, readonly keptUntil: number } | { readonly kind: AbandonAs }} AttemptEnd */

/**
 * @typedef {object} LedgerWatcher
 * @property {(attempt: LedgerAttempt) => void} [granted]
 * @property {(attempt: LedgerAttempt) => void} [ended]
 * @property {(step: { readonly name: string, readonly outcome: string }) => void} [stepKept]
 */

/** @typedef {ReturnType<typeof createLedger>} Ledger */

/** @param {{ readonly scope: string, readonly operation: string, readonly key: string }} parts */
export const subjectOf = ({ scope, operation, key }) => `${scope}|${operation}|${key}`;

/**
 * @param {Store} store
 * @param {World} world
 */
export function createLedger(store, world) {
  /** @type {Map<string, LedgerAttempt[]>} */
  const attempts = new Map();
  /** @type {Map<string, LedgerAttempt>} */
  const byToken = new Map();
  /** Tokens whose claims were given back, and that had none. @type {Set<string>} */
  const absent = new Set();
  /** @type {LedgerWatcher} */
  let watcher = {};
  /** The latest wall time of each moment since the start, as jumps made it. @type {{ at: number, wall: number }[]} */
  const peaks = [];

  /** @param {string} subject */
  const all = (subject) => attempts.get(subject) ?? [];
  /** @param {LedgerAttempt} attempt */
  const isCurrent = (attempt) => all(attempt.subject).at(-1) === attempt;

  /**
   * @param {string} owner
   * @param {Parameters<Store["claim"]>[0]} request
   * @param {{ readonly fence: number, readonly number: number }} grant
   */
  function granted(owner, { id, token, parts }, { fence, number }) {
    const known = byToken.get(`${id} ${token}`);
    if (known?.fence === fence) return;
    const subject = subjectOf(parts);
    const list = all(subject);
    const before = list.at(-1);
    if (before !== undefined) before.isOvertaken = true;
    const attempt = {
      subject,
      id,
      token,
      owner,
      fence,
      number,
      end: undefined,
      isOvertaken: false,
      isLate: known !== undefined || absent.has(token),
    };
    attempts.set(subject, [...list, attempt]);
    byToken.set(`${id} ${token}`, attempt);
    watcher.granted?.(attempt);
  }

  /**
   * @param {string} id
   * @param {string} token
   * @param {AttemptEnd} end
   */
  function ended(id, token, end) {
    const attempt = byToken.get(`${id} ${token}`);
    if (attempt === undefined || attempt.end !== undefined) return;
    attempt.end = end;
    watcher.ended?.(attempt);
  }

  return {
    /** @param {LedgerWatcher} next */
    watch(next) {
      watcher = next;
    },
    all,
    isCurrent,
    /** @param {string} id @param {string} token */
    byToken: (id, token) => byToken.get(`${id} ${token}`),
    /** @param {string} subject @param {number} fence */
    find: (subject, fence) => all(subject).find((attempt) => attempt.fence === fence),
    /** Notes that the wall clock is about to jump. */
    jumping: () => void peaks.push({ at: world.now(), wall: world.wall() }),
    /**
     * Whether the completed record must still be there: no clock that the store has shown was past its retention.
     * @param {LedgerAttempt} attempt
     */
    isKept({ end }) {
      if (end?.kind !== "completed") return false;
      return Math.max(world.wall(), ...peaks.map(({ wall }) => wall)) < end.keptUntil;
    },
    /**
     * The store as one process reaches it.
     * @param {string} owner
     * @returns {Store}
     */
    storeFor(owner) {
      const { keepStep } = store;
      return {
        ...store,
        async claim(request) {
          const answer = await store.claim(request);
          if (answer.status === "new") granted(owner, request, answer);
          return answer;
        },
        async complete(request) {
          const keptUntil = world.wall() + request.retentionMs;
          const answer = await store.complete(request);
          const { id, token, outcome } = request;
          if (answer) ended(id, token, { kind: "completed", outcome, keptUntil });
          return answer;
        },
        async abandon(request) {
          const answer = await store.abandon(request);
          if (answer) ended(request.id, request.token, { kind: request.as });
          else absent.add(request.token);
          return answer;
        },
        ...(keepStep && {
          async keepStep(request) {
            const answer = await keepStep(request);
            if (answer) watcher.stepKept?.(request);
            return answer;
          },
        }),
      };
    },
  };
}
