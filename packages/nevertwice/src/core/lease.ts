/**
 * How long an attempt may believe that it owns its claim. Counted on the monotonic clock from before the claim or renew
 * was sent, less a margin, so that the store never ends a lease before the attempt does.
 *
 *   sent ─────────── granted by the store ─────────────────── store's end of the lease
 *   └──── leaseMs, less a tenth: the attempt's own end ────┘
 */
import type { Timer } from "./clock.ts";
import type { LeaseLostReason } from "./observer.ts";

const MARGIN = 0.1;
const RENEW_AT = 1 / 3;
const RETRY_AT = 1 / 10;

export interface Lease {
  /** Fires when the lease is lost. Made when it is first asked for: most work never asks. */
  signal(): AbortSignal;
  /** Also true when the time is up but a blocked event loop kept the signal from firing yet. */
  isLost(): boolean;
  lose(reason: LeaseLostReason): void;
  /** The work is over: no more renewals, and the signal stays as it is. */
  stop(): void;
}

export interface LeaseOptions {
  readonly timer: Timer;
  readonly leaseMs: number;
  readonly maxRunMs: number;
  /** When the claim was sent; undefined for an attempt that proceeds without a claim and so has none to lose. */
  readonly sentAt: number | undefined;
  readonly renew: () => Promise<boolean>;
  readonly onLost: (reason: LeaseLostReason) => void;
}

/** Until when a claim or renew sent at `sentAt` may be relied on. */
export function leaseEnd(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs * (1 - MARGIN);
}

export function startLease({ timer, leaseMs, maxRunMs, sentAt, renew, onLost }: LeaseOptions): Lease {
  const startedAt = timer.now();
  const runEnd = startedAt + maxRunMs;
  let endsAt = sentAt === undefined ? Number.POSITIVE_INFINITY : leaseEnd(sentAt, leaseMs);
  let renewAt = sentAt === undefined ? Number.POSITIVE_INFINITY : sentAt + leaseMs * RENEW_AT;
  let controller: AbortController | undefined;
  let lostFor: LeaseLostReason | undefined;
  let isStopped = false;
  let cancel = () => {};

  function lose(reason: LeaseLostReason): void {
    if (isStopped || lostFor !== undefined) return;
    lostFor = reason;
    cancel();
    onLost(reason);
    controller?.abort(lostFor);
  }

  function arm(): void {
    cancel();
    if (isStopped || lostFor !== undefined) return;
    cancel = timer.after(Math.max(0, Math.min(renewAt, endsAt, runEnd) - timer.now()), tick);
  }

  function tick(): void {
    const now = timer.now();
    if (now >= runEnd) lose("ran-too-long");
    else if (now >= endsAt) lose("not-renewed");
    else if (now >= renewAt) sendRenewal(now);
    arm();
  }

  function sendRenewal(sent: number): void {
    // Nothing more is sent until this one is answered; `endsAt` still guards it.
    renewAt = Number.POSITIVE_INFINITY;
    renew().then(
      (isRenewed) => {
        if (!isRenewed) return lose("overtaken");
        endsAt = leaseEnd(sent, leaseMs);
        renewAt = sent + leaseMs * RENEW_AT;
        arm();
      },
      () => {
        renewAt = timer.now() + leaseMs * RETRY_AT;
        arm();
      },
    );
  }

  arm();
  return {
    signal() {
      if (controller === undefined) {
        controller = new AbortController();
        if (lostFor !== undefined) controller.abort(lostFor);
      }
      return controller.signal;
    },
    isLost: () => lostFor !== undefined || timer.now() >= Math.min(endsAt, runEnd),
    lose,
    stop() {
      isStopped = true;
      cancel();
    },
  };
}
