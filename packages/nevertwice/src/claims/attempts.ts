/**
 * Finds what events need about an attempt of which only the id and the token are known: its operation, its fence and its
 * start. The last claims of this process are remembered. For any other claim the record is read first, and only if there
 * is an observer. So the common path needs no further round trip, and without observers there is no cost.
 */

import type { RoundAnswer } from "../core/claim-round.ts";
import { systemClock } from "../core/clock.ts";
import type { Ports } from "../core/ports.ts";
import {
  type GrantedAttempt,
  reportAbandon,
  reportCompletion,
  reportOvertaken,
  reportRenewal,
} from "../core/report.ts";
import type { Call } from "../core/request.ts";
import type { Round } from "../core/round.ts";
import type { AbandonAs, StoreRecord } from "../core/store.ts";
import type { Deadline } from "../core/store-call.ts";

/** About 400 bytes each. */
const MOST_REMEMBERED = 10_000;

interface HeldClaim {
  readonly id: string;
  readonly token: string;
}

interface KnownAttempt extends GrantedAttempt {
  /** On the timer. */
  readonly startedAt: number;
  /** Its end was reported. A repeated call gets the same answer and does not report a second end. */
  isEnded: boolean;
}

/** Reports what happens to an attempt. */
export interface AttemptReport {
  completed(isOurs: boolean, notKept: string | undefined): void;
  abandoned(isOurs: boolean, as: AbandonAs): void;
  renewed(isOurs: boolean, leaseMs: number): void;
}

export interface Attempts {
  /** Whether this grant was reported before: a claim that is repeated with its token is the same attempt. */
  isRepeat(id: string, token: string, answer: RoundAnswer): boolean;
  started(call: Call, round: Round, fence: number): void;
  /**
   * Undefined if there is no observer, or if the attempt cannot be found. Rejects if the store does. Called before the
   * store is told.
   */
  find(held: HeldClaim, deadline: Deadline): Promise<AttemptReport | undefined>;
}

export function createAttempts({ store, emit, timer }: Ports): Attempts {
  /** In the order of their claims. */
  const remembered = new Map<string, KnownAttempt>();

  function remember(id: string, token: string, known: KnownAttempt): KnownAttempt {
    const name = attemptName(id, token);
    remembered.delete(name);
    remembered.set(name, known);
    const [oldest] = remembered.keys();
    if (remembered.size > MOST_REMEMBERED) remembered.delete(oldest as string);
    return known;
  }

  async function readAttempt(
    { id, token }: HeldClaim,
    { signal }: Deadline,
  ): Promise<KnownAttempt | undefined> {
    const record = await store.read(id, { signal });
    if (record?.token !== token || record.parts === undefined) return undefined;
    return remember(id, token, toKnownAttempt(record, record.parts.operation));
  }

  function toKnownAttempt({ id, fence, state, claimedAt }: StoreRecord, operation: string): KnownAttempt {
    return {
      subject: { id, parts: { operation } },
      fence,
      // An estimate, since the clocks of the store and of this process may differ. Only for claims of other processes.
      startedAt: timer.now() - Math.max(0, systemClock.now() - claimedAt),
      isEnded: state === "completed" || state === "released",
    };
  }

  function reportOn(known: KnownAttempt): AttemptReport {
    /** Reports the end of an attempt, once. */
    const end = (report: () => void) => {
      if (known.isEnded) return;
      known.isEnded = true;
      report();
    };
    return {
      completed: (isOurs, notKept) =>
        end(() => {
          const status = isOurs ? "recorded" : "overtaken";
          reportCompletion(emit, known, { status, ranMs: timer.now() - known.startedAt, notKept });
        }),
      abandoned: (isOurs, as) => end(() => reportAbandon(emit, known, isOurs, as)),
      renewed(isOurs, leaseMs) {
        if (isOurs) reportRenewal(emit, known, leaseMs);
        else end(() => reportOvertaken(emit, known));
      },
    };
  }

  return {
    isRepeat(id, token, answer) {
      if (answer.status !== "new") return false;
      return remembered.get(attemptName(id, token))?.fence === answer.fence;
    },
    started({ identity }, { token, sentAt }, fence) {
      const { id, parts } = identity;
      if (emit === undefined || remembered.get(attemptName(id, token))?.fence === fence) return;
      const subject = { id, parts: { operation: parts.operation } };
      remember(id, token, { subject, fence, startedAt: sentAt, isEnded: false });
    },
    async find(held, deadline) {
      if (emit === undefined) return undefined;
      const known = remembered.get(attemptName(held.id, held.token)) ?? (await readAttempt(held, deadline));
      return known && reportOn(known);
    },
  };
}

function attemptName(id: string, token: string): string {
  return `${id} ${token}`;
}
