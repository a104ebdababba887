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

/** Why an actor was refused. */
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

/** Why an action was rejected. */
export type Reason = CommitmentRejection | RegistryRejection | (typeof REASONS)[number];

/** The action changed nothing, and says why. */
export interface Rejected {
  /** Always false. */
  readonly ok: false;
  /** Why it was rejected. */
  readonly reason: Reason;
  /** An explanation for people. */
  readonly detail?: string | undefined;
  /** Only with `recording-failure`: the answer that was decided. */
  readonly answer?: Answer | undefined;
}

/** The hold is placed. */
export interface Placed {
  /** Always true. */
  readonly ok: true;
  /** The id of the commitment. */
  readonly id: string;
}

/** The action is done. */
export interface Done {
  /** Always true. */
  readonly ok: true;
}

/** The answer of an action, which every repetition of its key gets. */
export type Answer = Placed | Done | Rejected;

export function rejection(reason: Reason, detail?: string): Rejected {
  return detail === undefined ? { ok: false, reason } : { ok: false, reason, detail };
}
