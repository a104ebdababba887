/** Writes histories by hand: one line for each call, with the times at which it was sent and answered, in milliseconds. */
import type { KeyAnswer, KeyCall, KeyOperation } from "../../cli/prove/history.ts";

const LEASE_MS = 1_000;
const RETENTION_MS = 60_000;

type Line = readonly [sentAt: number, answeredAt: number, call: KeyCall, answer?: KeyAnswer];

export function history(...lines: readonly Line[]): readonly KeyOperation[] {
  return lines.map(([sentAt, answeredAt, call, answer]) => ({
    by: "a process",
    call,
    sentAt: sentAt * 1_000,
    answeredAt: answeredAt * 1_000,
    answer,
  }));
}

/** For a call that was never answered. */
export const NEVER = Number.POSITIVE_INFINITY;

export const claim = (token: string, more: Partial<Extract<KeyCall, { kind: "claim" }>> = {}): KeyCall => ({
  kind: "claim",
  token,
  leaseMs: LEASE_MS,
  retentionMs: RETENTION_MS,
  hold: false,
  ...more,
});
export const complete = (token: string, outcome = `of ${token}`): KeyCall => ({
  kind: "complete",
  token,
  outcome,
  retentionMs: RETENTION_MS,
});
export const abandon = (token: string, as: "released" | "unknown" | "unrun" = "released"): KeyCall => ({
  kind: "abandon",
  token,
  as,
});
export const renew = (token: string): KeyCall => ({ kind: "renew", token, leaseMs: LEASE_MS });
export const forget = (fence: number, reopen = false): KeyCall => ({ kind: "forget", fence, reopen });
export const read: KeyCall = { kind: "read" };

export const granted = (fence: number, number = 1, tookOver = false): KeyAnswer => ({
  status: "new",
  fence,
  number,
  tookOver,
});
export const pending: KeyAnswer = { status: "pending", leaseLeftMs: 500, elapsedMs: 500 };
/** A store says so if it did not wait for another step: it has seen no record. */
export const unseen: KeyAnswer = { status: "pending", leaseLeftMs: 1_000 };
export const completed = (outcome: string): KeyAnswer => ({ status: "completed", outcome });
export const unknown = (fence: number): KeyAnswer => ({ status: "unknown", fence });
export const seen = (
  state: "pending" | "lapsed" | "completed" | "released",
  token: string,
  fence: number,
  more: { readonly number?: number; readonly outcome?: string; readonly hold?: boolean } = {},
): KeyAnswer => ({ state, token, fence, number: 1, hold: false, ...more });
