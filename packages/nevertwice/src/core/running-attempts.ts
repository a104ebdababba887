/** The attempts that run in this process. Each has a lease that is renewed until its work has ended. */
import { type Attempt, createAttempt } from "./attempt.ts";
import { sendRenew } from "./claim-round.ts";
import { Lease } from "./lease.ts";
import { about, harmless } from "./observer.ts";
import type { Ports } from "./ports.ts";
import { reportRenewal } from "./report.ts";
import type { Call } from "./request.ts";
import type { Settlement } from "./round.ts";

/** Work that was still running when the guard closed. Its key lapses. */
export interface LeftRunning {
  readonly operation: string;
  readonly keyHash: string;
  readonly fence: number;
}

export interface RunningAttempts {
  /** Starts an attempt and its lease. The executor calls `end` when the work has ended. */
  begin(settlement: Settlement, number: number): { handed: Attempt; lease: Lease; end: () => void };
  /** Whether an attempt at this key runs in this process. */
  has(id: string): boolean;
  /** Fires the signals of the attempts that still run, and leaves them to lapse. */
  leave(): readonly LeftRunning[];
}

interface RunningAttempt {
  readonly call: Call;
  readonly fence: number;
  readonly lease: Lease;
}

export function createRunningAttempts(ports: Ports): RunningAttempts {
  const { timer, emit } = ports;
  const entries = new Set<RunningAttempt>();
  /** How many attempts have this id. There are two if an attempt lost its key to another one in this process. */
  const counts = new Map<string, number>();

  function count(id: string, change: 1 | -1): void {
    const now = (counts.get(id) ?? 0) + change;
    if (now === 0) counts.delete(id);
    else counts.set(id, now);
  }

  async function renew({ call, round, fence }: Settlement, leaseMs: number): Promise<boolean> {
    const isRenewed = await sendRenew(ports, call, round, leaseMs);
    if (!isRenewed) return false;
    reportRenewal(emit, { subject: call.identity, fence }, leaseMs);
    if (call.onRenewed !== undefined) harmless(call.onRenewed);
    return true;
  }

  return {
    begin(settlement, number) {
      const { call, round, fence, isUnclaimed, isInTransaction = false } = settlement;
      const { leaseMs, maxRunMs } = call.policy;
      const lease = new Lease({
        timer,
        leaseMs,
        maxRunMs,
        sentAt: isUnclaimed ? undefined : round.sentAt,
        isClaimRepeated: round.isRepeated,
        renew: (ms) => renew(settlement, ms),
        isHeld: isInTransaction,
        onLost: (reason) => emit?.({ ...about(call.identity), kind: "lease-lost", fence, reason }),
      });
      const entry: RunningAttempt = { call, fence, lease };
      const { id } = call.identity;
      entries.add(entry);
      count(id, 1);
      const end = () => {
        lease.stop();
        if (entries.delete(entry)) count(id, -1);
      };
      return { handed: createAttempt(ports, settlement, lease, number), lease, end };
    },
    has: (id) => counts.has(id),
    leave() {
      const left = [...entries].map(({ call, fence }) => ({ ...about(call.identity), fence }));
      for (const { lease } of entries) lease.lose("guard-closed");
      return left;
    },
  };
}
