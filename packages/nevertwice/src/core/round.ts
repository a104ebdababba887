/** The claim of an attempt, and the round of claiming that led to it. */
import type { Call } from "./request.ts";
import type { KeptStep } from "./store.ts";

/**
 * One round of claiming: the token that it is sent with, and what to do about a grant that comes too late. The store may
 * answer `new` after the engine stopped waiting for that try. The claim is then held by a token that this process does
 * not use, so the store must be told again how the attempt ended:
 *
 *   claim(T) sent ── timed out ── the round gives up: abandon(T) answers false ─────────▶ answerLateGrants: abandon(T) again
 *        └──────────────────── delayed ────────────────────▶ granted: `new` ── lateGrant ──┘
 *
 * Only this class holds that state. The claim reports a late grant with `grantLate`; the function that ended the attempt
 * says with `answerLateGrants` what the store is to be told.
 */
export class Round {
  readonly token: string;
  /** The caller brought the token and may send it again, from any process: only the caller may give the claim back. */
  readonly isCallers: boolean;
  /** When the claim that was answered was sent, on the timer. */
  sentAt = 0;
  /** A try of the claim was not answered, so it may still be granted. */
  mayBeGrantedLate = false;
  #isGrantedLate = false;
  #answer: (() => void) | undefined;

  constructor(token: string, isCallers: boolean) {
    this.token = token;
    this.isCallers = isCallers;
  }

  /** The store granted the claim after the try that asked for it was given up. */
  grantLate(): void {
    this.#isGrantedLate = true;
    this.#answer?.();
  }

  /** Calls `answer` for every late grant from now on: at once if one has arrived already, or if `isDue`. */
  answerLateGrants(answer: () => void, isDue = false): void {
    this.#answer = answer;
    if (isDue || this.#isGrantedLate) answer();
  }

  /** The engine tells the store now how the attempt ended. That covers the grants that have arrived so far. */
  forgetLateGrants(): void {
    this.#isGrantedLate = false;
  }
}

/** The claim of one attempt, and what the store and the caller are told about its end. */
export interface Settlement {
  readonly call: Call;
  readonly round: Round;
  readonly fence: number;
  /** The work ran without a claim (`onUnavailable: "proceed"`). The claim is made now, together with the completion. */
  readonly isUnclaimed: boolean;
  readonly startedAt: number;
  /** The work runs in a transaction that completes the record. Its lease is set once, and it has no steps. */
  readonly isInTransaction?: boolean;
  /** Set by `attempt.keepFor`: how long the outcome is kept instead of the policy's `retentionMs`. */
  keepForMs?: number | undefined;
  /** The steps that earlier attempts finished. */
  readonly steps?: readonly KeptStep[] | undefined;
}
