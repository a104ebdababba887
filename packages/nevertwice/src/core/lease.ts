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

/** The lease for a transaction: the attempt may rely on it while it waits for a connection, works, and learns how COMMIT ended. */
export function transactionLeaseMs(limits: {
  readonly transactionMs: number;
  readonly storeTimeoutMs: number;
}): number {
  return Math.ceil((limits.transactionMs + 2 * limits.storeTimeoutMs) / (1 - MARGIN));
}

export interface LeaseOptions {
  readonly timer: Timer;
  readonly leaseMs: number;
  readonly maxRunMs: number;
  /** When the claim was sent; undefined for an attempt without a claim, which it cannot lose. */
  readonly sentAt: number | undefined;
  /** Whether a try of the claim got no answer: it may still arrive, and restart the lease. Default false. */
  readonly isClaimRepeated?: boolean;
  /** Undefined for an attempt in a transaction of the application, whose claim no other connection sees before COMMIT. */
  readonly renew: ((leaseMs: number) => Promise<boolean>) | undefined;
  /** Whether the lease is on hold from the beginning (see `hold`). */
  readonly isHeld?: boolean;
  readonly onLost: (reason: LeaseLostReason) => void;
}

/** A class, since every attempt has one: its methods are created once and not for every lease. */
export class Lease {
  readonly #options: LeaseOptions;
  readonly #runEnd: number;
  #endsAt: number;
  #renewAt: number;
  /** When the last claim or renewal that was granted was sent. */
  #renewedAt: number;
  #controller: AbortController | undefined;
  #lostFor: LeaseLostReason | undefined;
  #isStopped = false;
  /** Between `hold` and `resume`. */
  #isHeld: boolean;
  /** Settles when every renewal that was sent is answered. */
  #sent: Promise<unknown> | undefined;
  /**
   * The shortest lease that a claim or renewal without an answer asked for. It may arrive at any time, also after one for a
   * longer lease, and then leaves the shorter one:
   *
   *   renew 30 s ── no answer ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┐
   *                       renew 60 s ── granted, until 60 s ┴─▶ until 30 s from here
   */
  #unansweredMs: number;
  #cancel: () => void;

  constructor(options: LeaseOptions) {
    const { timer, leaseMs, maxRunMs, sentAt = Number.POSITIVE_INFINITY, isHeld = false } = options;
    const now = timer.now();
    this.#options = options;
    this.#runEnd = now + maxRunMs;
    this.#endsAt = leaseEnd(sentAt, leaseMs);
    this.#renewedAt = sentAt;
    this.#unansweredMs = options.isClaimRepeated ? leaseMs : Number.POSITIVE_INFINITY;
    this.#isHeld = isHeld || options.renew === undefined;
    this.#renewAt = this.#isHeld ? Number.POSITIVE_INFINITY : sentAt + leaseMs * RENEW_AT;
    this.#cancel = this.#arm(now);
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

  /** Renews now, unless the lease is on hold. False if the claim is lost or there never was one; rejects if the store does not answer. */
  async renew(): Promise<boolean> {
    const { sentAt, leaseMs } = this.#options;
    if (this.#isStopped || this.isLost()) return false;
    if (this.#isHeld) return true;
    if (sentAt === undefined) return false;
    await this.#send(leaseMs);
    return !this.isLost();
  }

  /**
   * Renews for `leaseMs`, and then sends no renewal until `resume`. A transaction of the application is about to lock the
   * record: a renewal from another connection would wait for that lock, and above READ COMMITTED it would make the
   * transaction fail. False if the claim is lost; rejects if the store does not answer.
   */
  async hold(leaseMs: number): Promise<boolean> {
    this.#isHeld = true;
    this.#renewAt = Number.POSITIVE_INFINITY;
    this.#rearm();
    // A renewal that is on its way would arrive during the transaction, or shorten the lease that is set now.
    await this.#sent;
    if (this.#isStopped || this.isLost()) return false;
    if (this.#endsAt < leaseEnd(this.#options.timer.now(), leaseMs)) await this.#send(leaseMs);
    return !this.isLost();
  }

  /** The transaction has ended: renews again, from now on. */
  resume(): void {
    const { timer, leaseMs } = this.#options;
    this.#isHeld = false;
    this.#renewAt = Math.max(timer.now(), this.#renewedAt + leaseMs * RENEW_AT);
    this.#rearm();
  }

  async #send(leaseMs: number): Promise<void> {
    const sentAt = this.#options.timer.now();
    // After a longer lease, a renewal shortens it, and may do so even if its answer is lost.
    this.#endsAt = Math.min(this.#endsAt, leaseEnd(sentAt, leaseMs));
    const answer = this.#options.renew?.(leaseMs) ?? Promise.resolve(false);
    const answered = Promise.allSettled([this.#sent, answer]).then(() => {
      if (this.#sent === answered) this.#sent = undefined;
    });
    this.#sent = answered;
    const isGranted = await answer.catch((error) => {
      this.#unansweredMs = Math.min(this.#unansweredMs, leaseMs);
      throw error;
    });
    if (!isGranted) return this.lose("overtaken");
    // Two renewals may be in flight, and their answers may come in any order.
    this.#endsAt = Math.max(this.#endsAt, leaseEnd(sentAt, Math.min(leaseMs, this.#unansweredMs)));
    this.#renewedAt = Math.max(this.#renewedAt, sentAt);
    if (!this.#isHeld) this.#renewAt = this.#renewedAt + this.#options.leaseMs * RENEW_AT;
    this.#rearm();
  }

  /** The work has ended: stops the renewals and leaves the signal unchanged. */
  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #arm(now: number): () => void {
    const nextAt = Math.min(this.#renewAt, this.#endsAt, this.#runEnd);
    return this.#options.timer.after(Math.max(0, nextAt - now), () => this.#tick());
  }

  #rearm(): void {
    this.#cancel();
    if (!this.#isStopped && this.#lostFor === undefined) this.#cancel = this.#arm(this.#options.timer.now());
  }

  #tick(): void {
    const now = this.#options.timer.now();
    if (now >= this.#runEnd) this.lose("ran-too-long");
    else if (now >= this.#endsAt) this.lose("not-renewed");
    else if (now >= this.#renewAt) this.#sendRenewal();
    this.#rearm();
  }

  #sendRenewal(): void {
    const { timer, leaseMs } = this.#options;
    // No other renewal is sent until this one is answered. `endsAt` still ends the lease.
    this.#renewAt = Number.POSITIVE_INFINITY;
    this.#send(leaseMs).catch(() => {
      if (!this.#isHeld) this.#renewAt = timer.now() + leaseMs * RETRY_AT;
      this.#rearm();
    });
  }
}
