/** What the server's answers look like, as far as the dashboard reads them. `/openapi.json` says all of it. */

import type { Second } from "../src/live.ts";

export type { Rate, Second } from "../src/live.ts";

export interface Snapshot {
  readonly at: number;
  readonly inFlight: number;
  readonly seconds: readonly Second[];
}

export const FAULTS = ["our-crash", "store-crash", "power-loss", "failover"] as const;

export interface Finding {
  readonly survives: "yes" | "no" | "unknown";
  readonly because: string;
  readonly raise?: string;
}

export interface Diagnosis {
  readonly title: string;
  readonly rung: string | null;
  readonly survives: Readonly<Record<(typeof FAULTS)[number], Finding>>;
  readonly refused?: string | null;
  readonly notes: readonly string[];
}

export const STATES = ["pending", "lapsed", "completed", "released"] as const;
export type State = (typeof STATES)[number];

export interface KeyRecord {
  readonly id: string;
  readonly keyHash: string;
  readonly operation: string | null;
  readonly scope: string | null;
  readonly key: string | null;
  readonly state: State;
  readonly fence: number;
  readonly number: number;
  readonly held: boolean;
  readonly claimedAt: number;
  readonly leaseLeftMs: number;
  readonly completedAt: number | null;
  readonly keptUntil: number | null;
  readonly outcome?: Outcome;
}

export type Outcome =
  | { readonly kind: "value"; readonly value?: unknown }
  | { readonly kind: "thrown"; readonly error?: unknown }
  | { readonly kind: "not-kept"; readonly reason: string };

export interface SeenEvent {
  readonly at: number;
  readonly kind: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface Hold {
  readonly id: string;
  readonly resource: string;
  readonly requester: string;
  readonly units: number;
  readonly state: "held" | "confirmed" | "released" | "expired";
  readonly isElapsed: boolean;
  readonly placedAt: number;
  readonly expiresAt: number;
  readonly endedAt?: number;
  readonly confirmedUnits?: number;
  readonly occupied?: number;
}

export interface Resource {
  readonly name: string;
  readonly capacity: number;
  readonly taken: number;
  readonly free: number;
  readonly state: "open" | "suspended" | "closed";
  readonly isDeclared: boolean;
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  readonly next?: string | undefined;
}

export type Verdict = "holds" | "broken" | "nothing-to-see";

export interface AuditRow {
  readonly id: string;
  readonly name: string;
  readonly status: Verdict;
  readonly looked: number;
  readonly broken: number;
  readonly lines: readonly string[];
  readonly shows: string;
}

export interface AuditPage {
  readonly title: string;
  readonly status: Verdict;
  readonly counts: readonly { readonly name: string; readonly count: number }[];
  readonly sections: readonly {
    readonly title: string;
    readonly status: Verdict;
    readonly rows: readonly AuditRow[];
  }[];
  readonly notes: readonly string[];
}
