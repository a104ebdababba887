/** The attempts that run in this process. Each has a lease that is renewed until its work has ended. */
import { canShareAcrossCalls } from "#platform";
import { type Attempt, createAttempt } from "./attempt.ts";
import { sendRenew } from "./claim-round.ts";
import type { Timer } from "./clock.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { about, harmless, type LeaseLostReason } from "./observer.ts";
import type { Ports } from "./ports.ts";
import { reportRenewal } from "./report.ts";
import type { Settlement } from "./round.ts";

/** Work that was still running when the guard closed. Its key lapses. */
export interface LeftRunning {
  /** The operation of the work. */
  readonly operation: string;
  /** The short hash of its key, as in events. */
  readonly keyHash: string;
  /** The fence of its claim, which `guard.resolve` needs. */
  readonly fence: number;
}

export interface RunningAttempts {
  /** Starts an attempt and its lease. The executor calls its `end` when the work has ended. */
  begin(settlement: Settlement, number: number): RunningAttempt;
  /** Whether an attempt at this key runs in this process. */
  has(id: string): boolean;
  /** Fires the signals of the attempts that still run, and leaves them to lapse. */
  leave(): readonly LeftRunning[];
}

/** An attempt, its lease and what the lease needs: one object and no closures, since every call of a guard has one. */
class RunningAttempt implements LeaseOptions {
  readonly settlement: Settlement;
  readonly handed: Attempt;
  readonly lease: Lease;
  readonly #ports: Ports;
  /** Its neighbours in the list of the attempts that run. */
  #before: RunningAttempt | undefined;
  #after: RunningAttempt | undefined;
  #row: AttemptRow | undefined;

  constructor(ports: Ports, settlement: Settlement, number: number) {
    this.settlement = settlement;
    this.#ports = ports;
    this.lease = new Lease(this);
    this.handed = createAttempt(ports, settlement, this.lease, number);
  }

  get timer(): Timer {
    return this.#ports.timer;
  }

  get leaseMs(): number {
    return this.settlement.call.policy.leaseMs;
  }

  get maxRunMs(): number {
    return this.settlement.call.policy.maxRunMs;
  }

  get sentAt(): number | undefined {
    return this.settlement.isUnclaimed ? undefined : this.settlement.round.sentAt;
  }

  get isClaimRepeated(): boolean {
    return this.settlement.round.mayBeGrantedLate;
  }

  get isHeld(): boolean {
    return this.settlement.isInTransaction ?? false;
  }

  async renew(leaseMs: number): Promise<boolean> {
    const { call, round, fence } = this.settlement;
    const isRenewed = await sendRenew(this.#ports, call, round, leaseMs);
    if (!isRenewed) return false;
    reportRenewal(this.#ports.emit, { subject: call.identity, fence }, leaseMs);
    if (call.onRenewed !== undefined) harmless(call.onRenewed);
    return true;
  }

  onLost(reason: LeaseLostReason): void {
    const { call, fence } = this.settlement;
    this.#ports.emit?.({ ...about(call.identity), kind: "lease-lost", fence, reason });
  }

  /** Puts the attempt in front of the row. */
  enter(row: AttemptRow): this {
    this.#row = row;
    this.#after = row.first;
    if (row.first !== undefined) row.first.#before = this;
    row.first = this;
    return this;
  }

  get next(): RunningAttempt | undefined {
    return this.#after;
  }

  /** The work has ended. Calling it again does nothing. */
  end(): void {
    this.lease.stop();
    this.leaveRow();
  }

  leaveRow(): void {
    if (this.#row === undefined) return;
    if (this.#before === undefined) this.#row.first = this.#after;
    else this.#before.#after = this.#after;
    if (this.#after !== undefined) this.#after.#before = this.#before;
    this.#row = undefined;
    this.#before = undefined;
    this.#after = undefined;
  }
}

interface AttemptRow {
  first: RunningAttempt | undefined;
}

/** A power of two. */
const ROWS = 256;

/** An id is a hash in hex digits, so its first two tell the attempts apart well enough. */
function rowNumber(id: string): number {
  return (id.charCodeAt(0) * 31 + id.charCodeAt(1)) & (ROWS - 1);
}

export function createRunningAttempts(ports: Ports): RunningAttempts {
  // Linked lists, since a Map that every call enters and leaves costs more than the rest of an attempt.
  const rows: readonly AttemptRow[] = Array.from({ length: ROWS }, () => ({ first: undefined }));
  const row = (id: string) => rows[rowNumber(id)] as AttemptRow;

  function* attemptsIn({ first }: AttemptRow): Generator<RunningAttempt> {
    for (let one = first; one !== undefined; one = one.next) yield one;
  }

  /** Drops attempts whose request the platform has ended, so that they never end themselves. Their timers are not ours to cancel. */
  function sweep(one: AttemptRow): void {
    for (const attempt of [...attemptsIn(one)]) if (attempt.lease.isLost()) attempt.leaveRow();
  }

  return {
    begin(settlement, number) {
      const entered = row(settlement.call.identity.id);
      if (!canShareAcrossCalls) sweep(entered);
      return new RunningAttempt(ports, settlement, number).enter(entered);
    },
    has(id) {
      if (!canShareAcrossCalls) sweep(row(id));
      for (const { settlement } of attemptsIn(row(id))) if (settlement.call.identity.id === id) return true;
      return false;
    },
    leave() {
      const left = rows.flatMap((one) => [...attemptsIn(one)]);
      for (const { lease } of left) lease.lose("guard-closed");
      return left.map(({ settlement: { call, fence } }) => ({ ...about(call.identity), fence }));
    },
  };
}
