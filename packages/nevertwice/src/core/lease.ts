/**
 * How long an attempt may rely on its claim. The lease is counted on the monotonic clock from before the claim or renew
 * was sent, less a margin, so that the attempt ends its lease before the store does.
 *
 *   sent ─────────── granted by the store ─────────────────── store's end of the lease
 *   └──── leaseMs, less a tenth: the attempt's own end ────┘
 */
import type { Timer } from "./clock.ts";
import type { LeaseLostReason } from "./observer.ts";

const MARGIN = 0.1;
const RENEW_AT = 1 / 3;
const RETRY_AT = 1 / 10;

/** When an attempt stops relying on a claim or renew that was sent at `sentAt`. */
export function leaseEnd(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs * (1 - MARGIN);
}

/** The lease with which an attempt may rely on its claim for `ms`. */
export function leaseFor(ms: number): number {
  return Math.ceil(ms / (1 - MARGIN));
}

export interface LeaseOptions {
  readonly timer: Timer;
  readonly leaseMs: number;
  readonly maxRunMs: number;
  /** When the claim was sent; undefined for an attempt without a claim, which it cannot lose. */
  readonly sentAt: number | undefined;
  /** Undefined for a lease that is set once: a renewal from another connection would make the completion of a transaction fail. */
  readonly renew: (() => Promise<boolean>) | undefined;
  readonly onLost: (reason: LeaseLostReason) => void;
}

/** A class, since every attempt has one: its methods are created once and not for every lease. */
export class Lease {
  readonly #options: LeaseOptions;
  readonly #runEnd: number;
  #endsAt: number;
  #renewAt: number;
  #controller: AbortController | undefined;
  #lostFor: LeaseLostReason | undefined;
  #isStopped = false;
  #cancel: () => void;

  constructor(options: LeaseOptions) {
    const { timer, leaseMs, maxRunMs, sentAt = Number.POSITIVE_INFINITY } = options;
    this.#options = options;
    this.#runEnd = timer.now() + maxRunMs;
    this.#endsAt = leaseEnd(sentAt, leaseMs);
    this.#renewAt = options.renew === undefined ? Number.POSITIVE_INFINITY : sentAt + leaseMs * RENEW_AT;
    this.#cancel = this.#arm();
  }

  /** Fires when the lease is lost. It is created at the first use, since most work never uses it. */
  signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lostFor !== undefined) this.#controller.abort(this.#lostFor);
    }
    return this.#controller.signal;
  }

  /** Also true if the time is up, but a blocked event loop has kept the signal from firing so far. */
  isLost(): boolean {
    return this.#lostFor !== undefined || this.#options.timer.now() >= Math.min(this.#endsAt, this.#runEnd);
  }

  lose(reason: LeaseLostReason): void {
    if (this.#isStopped || this.#lostFor !== undefined) return;
    this.#lostFor = reason;
    this.#cancel();
    this.#options.onLost(reason);
    this.#controller?.abort(reason);
  }

  /** Renews now, unless the lease is set once. False if the claim is lost or there never was one; rejects if the store does not answer. */
  async renew(): Promise<boolean> {
    const { timer, sentAt, renew } = this.#options;
    if (this.#isStopped || this.isLost()) return false;
    if (renew === undefined) return true;
    if (sentAt === undefined) return false;
    const now = timer.now();
    this.#answered(now, await renew());
    return !this.isLost();
  }

  #answered(sentAt: number, isRenewed: boolean): void {
    if (!isRenewed) {
      this.lose("overtaken");
      return;
    }
    const { leaseMs } = this.#options;
    // Two renewals may be in flight, and their answers may come in any order.
    this.#endsAt = Math.max(this.#endsAt, leaseEnd(sentAt, leaseMs));
    this.#renewAt = sentAt + leaseMs * RENEW_AT;
    this.#rearm();
  }

  /** The work has ended: stops the renewals and leaves the signal unchanged. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #arm(): () => void {
    const { timer } = this.#options;
    const nextAt = Math.min(this.#renewAt, this.#endsAt, this.#runEnd);
    return timer.after(Math.max(0, nextAt - timer.now()), () => this.#tick());
  }

  #rearm(): void {
    this.#cancel();
    if (!this.#isStopped && this.#lostFor === undefined) this.#cancel = this.#arm();
  }

  #tick(): void {
    const now = this.#options.timer.now();
    if (now >= this.#runEnd) this.lose("ran-too-long");
    else if (now >= this.#endsAt) this.lose("not-renewed");
    else if (now >= this.#renewAt) this.#sendRenewal(now);
    this.#rearm();
  }

  #sendRenewal(sentAt: number): void {
    const { timer, leaseMs, renew } = this.#options;
    // No other renewal is sent until this one is answered. `endsAt` still ends the lease.
    this.#renewAt = Number.POSITIVE_INFINITY;
    renew?.().then(
      (isRenewed) => this.#answered(sentAt, isRenewed),
      () => {
        this.#renewAt = timer.now() + leaseMs * RETRY_AT;
        this.#rearm();
      },
    );
  }
}
