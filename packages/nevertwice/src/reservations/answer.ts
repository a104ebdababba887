/** What an action is answered with: values, in the specification's words. */
import type { CommitmentRejection } from "./commitment.ts";
import type { RegistryRejection } from "./registry.ts";

export type Reason =
  | CommitmentRejection
  | RegistryRejection
  /** The key was used for another action, or with other parameters. */
  | "token-collision"
  /** Nothing was written: the same request may be sent again. */
  | "storage-failure"
  /** It was decided, and nobody knows whether that was written: `answer` is what was decided. Send it again with the same key only. */
  | "recording-failure";

export interface Rejected {
  readonly ok: false;
  readonly reason: Reason;
  /** For people. */
  readonly detail?: string | undefined;
  /** On `recording-failure`. */
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
