/** The attempts that run in this process. Each has a lease that is renewed until its work has ended. */
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
  readonly operation: string;
  readonly keyHash: string;
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
  /** Another attempt at the same key that runs in this process: it lost the key to this one, or this one to it. */
  beside: RunningAttempt | undefined;
  readonly #ports: Ports;
  readonly #all: Map<string, RunningAttempt>;

  constructor(ports: Ports, settlement: Settlement, number: number, all: Map<string, RunningAttempt>) {
    this.settlement = settlement;
    this.#ports = ports;
    this.#all = all;
    this.lease = new Lease(this);
    this.handed = createAttempt(ports, settlement, this.lease, number);
    const { id } = settlement.call.identity;
    this.beside = all.get(id);
    all.set(id, this);
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

  /** The work has ended. Calling it again does nothing. */
  end(): void {
    this.lease.stop();
    const { id } = this.settlement.call.identity;
    const latest = this.#all.get(id);
    if (latest === this) {
      if (this.beside === undefined) this.#all.delete(id);
      else this.#all.set(id, this.beside);
      return;
    }
    for (let other = latest; other !== undefined; other = other.beside)
      if (other.beside === this) other.beside = this.beside;
  }
}

export function createRunningAttempts(ports: Ports): RunningAttempts {
  /** The latest attempt at each id. */
  const latest = new Map<string, RunningAttempt>();

  function* everyAttempt(): Generator<RunningAttempt> {
    for (const newest of latest.values())
      for (let one: RunningAttempt | undefined = newest; one !== undefined; one = one.beside) yield one;
  }

  return {
    begin: (settlement, number) => new RunningAttempt(ports, settlement, number, latest),
    has: (id) => latest.has(id),
    leave() {
      const attempts = [...everyAttempt()];
      for (const { lease } of attempts) lease.lose("guard-closed");
      return attempts.map(({ settlement: { call, fence } }) => ({ ...about(call.identity), fence }));
    },
  };
}
