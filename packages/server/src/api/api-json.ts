/**
 * What the HTTP API returns, as types: one definition for the server, the command line and the dashboard. The schemas next
 * to the routes say the same for `/openapi.json`. Types only, so that the dashboard can import this file into a browser.
 */
import type { RecordState } from "nevertwice";
import type { Diagnosis } from "nevertwice/doctor";
import type { MessageState, OutboxFigures } from "nevertwice/outbox";
import type { CommitmentView, KeptResource, Page } from "nevertwice/reservations";
import type { Second } from "../live.ts";

/** One key: a record of `GET /v1/keys`, and of `GET /v1/claims/{id}`. */
export interface KeyJson {
  readonly id: string;
  readonly keyHash: string;
  readonly operation: string | null;
  readonly scope: string | null;
  readonly key: string | null;
  readonly state: RecordState;
  readonly fence: number;
  readonly number: number;
  readonly held: boolean;
  readonly claimedAt: number;
  readonly leaseLeftMs: number;
  readonly completedAt: number | null;
  readonly keptUntil: number | null;
  readonly outcome?: OutcomeJson;
  readonly steps?: readonly StepJson[];
}

/** A finished step of work that is not completed. */
export interface StepJson {
  readonly name: string;
  readonly keptAt: number;
  readonly outcome?: OutcomeJson;
}

export type OutcomeJson =
  | { readonly kind: "value"; readonly value?: unknown }
  | { readonly kind: "thrown"; readonly error?: unknown }
  | { readonly kind: "not-kept"; readonly reason: string };

/** A page of `GET /v1/keys`. */
export interface KeyPageJson {
  readonly records: readonly KeyJson[];
  readonly unreadable?: readonly { readonly id: string; readonly reason?: string }[];
  readonly next: string | null;
}

/** One event of a key that this server observed. */
export interface KeyEventJson {
  readonly at: number;
  readonly kind: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** `GET /v1/keys/{id}`. */
export interface KeyDetailsJson {
  readonly record: KeyJson;
  readonly events: readonly KeyEventJson[];
}

/** One hold: a row of `GET /v1/holds`, and `GET /v1/holds/{id}`. */
export type HoldJson = Omit<CommitmentView, "namespace" | "events" | "lastHash">;

/** One resource, with the units that are free. */
export type ResourceJson = Omit<KeptResource, "namespace" | "events" | "lastHash"> & {
  readonly free: number;
};

/** A page of holds or resources. */
export type PageJson<Row> = Page<Row>;

/** One undelivered message of `GET /v1/outbox`, without its body and headers. */
export interface MessageJson {
  readonly id: string;
  readonly topic: string;
  readonly key: string | null;
  readonly scope: string | null;
  readonly state: MessageState;
  readonly createdAt: number;
  readonly attempts: number;
  readonly dueAt: number | null;
  readonly parkedAt: number | null;
  readonly lastError: string | null;
}

/** A page of `GET /v1/outbox`. */
export interface MessagePageJson {
  readonly messages: readonly MessageJson[];
  readonly next: string | null;
}

/** `GET /v1/outbox/figures`. */
export type OutboxFiguresJson = Omit<OutboxFigures, "oldestMs"> & { readonly oldestMs: number | null };

/** `GET /v1/doctor`. */
export type DiagnosisJson = Omit<Diagnosis, "rung" | "toString"> & {
  readonly rung: Diagnosis["rung"] | null;
};

/** `GET /v1/live`: what this server observed in the last minute. */
export interface SnapshotJson {
  readonly at: number;
  readonly inFlight: number;
  readonly seconds: readonly Second[];
  readonly store: Pick<DiagnosisJson, "title" | "rung"> | null;
}

/** `/session`: whether the browser is signed in, and as which access token. */
export interface SessionJson {
  /** Whether callers have to present an access token at all. */
  readonly needed: boolean;
  readonly caller: CallerJson | null;
  /** The value of the header `X-Nevertwice-Csrf` that every change must carry. */
  readonly csrf: string | null;
}

export interface CallerJson {
  readonly name: string;
  readonly roles: readonly string[];
  readonly namespace: string;
}
