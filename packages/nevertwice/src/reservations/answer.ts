/** The answers of actions: plain values, in the words of the specification. */
import type { CommitmentRejection } from "./commitment.ts";
import type { RegistryRejection } from "./registry.ts";

/** Rejections that are decisions, and are therefore stored under their key. */
const DECIDED = [
  "invalid-request",
  "not-known",
  "not-held",
  "window-elapsed",
  "window-not-elapsed",
  "units-exceeded",
  "resource-unavailable",
  "pool-suspended",
  "pool-closed",
] as const satisfies readonly (CommitmentRejection | RegistryRejection)[];

/** Rejections of the actor. They are stored under a key of their own, not under the caller's. */
export const DENIALS = ["not-authorized", "proof-invalid", "actor-unknown-in-registry"] as const;

export type Denial = (typeof DENIALS)[number];

export const REASONS = [
  ...DECIDED,
  ...DENIALS,
  /** It could not be found out whether the actor may do this. Nothing was decided or stored. */
  "registry-unavailable",
  /** The key was used for another action, or with other parameters. */
  "token-collision",
  /** Nothing was written. The same request may be sent again. */
  "storage-failure",
  /** Decided, but the store did not report whether it was written. `answer` is the decision. Retry with the same key only. */
  "recording-failure",
] as const;

export type Reason = CommitmentRejection | RegistryRejection | (typeof REASONS)[number];

export interface Rejected {
  readonly ok: false;
  readonly reason: Reason;
  /** An explanation for people. */
  readonly detail?: string | undefined;
  /** Only with `recording-failure`: the answer that was decided. */
  readonly answer?: Answer | undefined;
}

export interface Placed {
  readonly ok: true;
  readonly id: string;
}

export interface Done {
  readonly ok: true;
}

export type Answer = Placed | Done | Rejected;

export function rejection(reason: Reason, detail?: string): Rejected {
  return detail === undefined ? { ok: false, reason } : { ok: false, reason, detail };
}
