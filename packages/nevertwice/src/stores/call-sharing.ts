/**
 * One call for several callers: calls that mean the same and are queued at the same time are sent as one. Each caller gets
 * what the store would have answered if it had been asked directly after the call that was sent. Nobody joins a call that
 * has been sent: the store might have judged it before the caller called.
 *
 *   claim(A) queued ── claim(B) joins ── claim(A) is sent ── new ──▶ A: new, B: pending
 *   claim(A) queued ── claim(B) joins ── A leaves ── claim(B) is sent ── new ──▶ B: new
 */

/** Which calls are sent as one, and what each caller is answered. */
export interface SharingRules<Call, Answer> {
  /** Calls with different ids never share; undefined: this call shares with no other. */
  idOf(call: Call): string | undefined;
  /** Whether the store judges two calls of one id by the same values. */
  isAlike(call: Call, queued: Call): boolean;
  /** What `call` gets because `sent` was answered; undefined: only the store can tell, so the call is sent as well. */
  answerTo(call: Call, sent: Call, answer: Answer): Answer | undefined;
  /** The caller no longer waits. */
  hasLeft(call: Call): boolean;
  /** The call with a signal that fires when all of these callers have left. */
  sentFor(call: Call, all: readonly Call[]): Call;
}

/** Who waits for the answer to a call. */
export interface WaitingCaller<Call, Answer> {
  readonly call: Call;
  readonly resolve: (answer: Answer | PromiseLike<Answer>) => void;
  readonly reject: (error: unknown) => void;
}

export interface SharedCall<Call, Answer> {
  /** The caller whose call is sent. */
  caller: WaitingCaller<Call, Answer>;
  /** Callers that get their answers from its answer. Most calls have none. */
  others: WaitingCaller<Call, Answer>[] | undefined;
}

export interface CallSharing<Call, Answer> {
  /** Whether a call that is still queued is sent for this caller too. */
  joins(caller: WaitingCaller<Call, Answer>): boolean;
  /** The call is queued: others may join it. */
  open(shared: SharedCall<Call, Answer>): void;
  /** The call is about to be sent: no other may join it. Returns the call to send. */
  close(shared: SharedCall<Call, Answer>): Call;
  /** Answers the callers that joined, and returns those that only the store can answer. */
  answerOthers(
    shared: SharedCall<Call, Answer>,
    answer: Answer | PromiseLike<Answer>,
  ): Promise<readonly WaitingCaller<Call, Answer>[]>;
}

export function createSharing<Call, Answer>(
  rules: SharingRules<Call, Answer>,
  leftError: () => Error,
): CallSharing<Call, Answer> {
  const queued = new Map<string, SharedCall<Call, Answer>>();

  /** If the first caller has left, the call of the next one is sent: a claim is never granted to a caller that is gone. */
  function replaceLeft(
    shared: SharedCall<Call, Answer>,
    others: readonly WaitingCaller<Call, Answer>[],
  ): void {
    const present = [shared.caller, ...others].filter(({ call }) => !rules.hasLeft(call));
    const [first, ...rest] = present;
    if (first === undefined) return;
    if (first !== shared.caller) shared.caller.reject(leftError());
    for (const other of others) if (rules.hasLeft(other.call)) other.reject(leftError());
    shared.caller = first;
    shared.others = rest.length === 0 ? undefined : rest;
  }

  return {
    joins(caller) {
      const id = rules.idOf(caller.call);
      const shared = id === undefined ? undefined : queued.get(id);
      if (shared === undefined || !rules.isAlike(caller.call, shared.caller.call)) return false;
      shared.others ??= [];
      shared.others.push(caller);
      return true;
    },
    open(shared) {
      const id = rules.idOf(shared.caller.call);
      if (id !== undefined && !queued.has(id)) queued.set(id, shared);
    },
    close(shared) {
      const id = rules.idOf(shared.caller.call);
      if (id !== undefined && queued.get(id) === shared) queued.delete(id);
      if (shared.others !== undefined) replaceLeft(shared, shared.others);
      const { caller, others } = shared;
      return others === undefined
        ? caller.call
        : rules.sentFor(caller.call, [caller.call, ...others.map(({ call }) => call)]);
    },
    async answerOthers(shared, answer) {
      const { caller, others = [] } = shared;
      shared.others = undefined;
      try {
        const answered = await answer;
        return others.filter((other) => {
          const own = rules.answerTo(other.call, caller.call, answered);
          if (own !== undefined) other.resolve(own);
          return own === undefined;
        });
      } catch {
        // The error may concern that one call.
        return others;
      }
    },
  };
}
