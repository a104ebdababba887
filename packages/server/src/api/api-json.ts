/**
 * What the HTTP API returns, as types: one definition for the server, the command line and the dashboard. The schemas next
 * to the routes say the same for `/openapi.json`. Types only, so that the dashboard can import this file into a browser.
 */
import type { KeptAttempt, RecordPage, RecordState } from "nevertwice";
import type { Diagnosis } from "nevertwice/doctor";
import type { MessageState, OutboxFigures } from "nevertwice/outbox";
import type { CommitmentView, KeptResource, Page } from "nevertwice/reservations";
import type { Counted } from "../figures/tally.ts";
import type { Second } from "../live.ts";
import type { Journey } from "../pipelines/journeys.ts";
import type { NodeMinute } from "../pipelines/pipeline-figures.ts";

/** One key: a record of `GET /v1/keys`, and of `GET /v1/claims/{id}`. */
export interface KeyJson {
  readonly id: string;
  readonly keyHash: string;
  readonly operation: string | null;
  readonly scope: string | null;
  readonly key: string | null;
  readonly fingerprint?: string;
  readonly state: RecordState;
  readonly fence: number;
  readonly number: number;
  readonly held: boolean;
  readonly claimedAt: number;
  readonly leaseLeftMs: number;
  readonly completedAt: number | null;
  /** When a lapsed key lapsed; null in other states, and on a store that does not say. */
  readonly lapsedAt: number | null;
  readonly keptUntil: number | null;
  readonly outcome?: OutcomeJson;
  readonly steps?: readonly StepJson[];
  readonly history?: HistoryJson;
}

/** What a record remembers of its attempts, in their order. */
export interface HistoryJson {
  readonly attempts: readonly AttemptJson[];
  /** How many earlier attempts it no longer remembers. */
  readonly dropped: number;
}

export interface AttemptJson {
  readonly number: number;
  readonly fence: number;
  readonly claimedAt: number;
  readonly renewals: number;
  readonly renewedAt: number | null;
  readonly endedAt: number | null;
  readonly ended: NonNullable<KeptAttempt["ended"]> | null;
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
  readonly order: RecordPage["order"];
}

/** What `POST /v1/keys/resolve` did with one page. */
export interface ResolvedPageJson {
  readonly read: number;
  readonly matched: number;
  readonly resolved: number;
  readonly changed: number;
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
  readonly response?: ResponseJson;
}

/** An outcome that is a stored HTTP response. */
export interface ResponseJson {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: { readonly bytes: number; readonly text?: string } | null;
}

/** `POST /v1/keys/{id}/derived-keys`. */
export interface DerivedKeysJson {
  readonly derivedKeys: Readonly<Record<string, string>>;
}

/** One hold: a row of `GET /v1/holds`, and `GET /v1/holds/{id}`. */
export type HoldJson = Omit<CommitmentView, "namespace" | "events" | "lastHash" | "requesterSalt">;

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
  readonly undecided: UndecidedJson | null;
  /** The networks that run in this process. */
  readonly pipelines: readonly NetworkFiguresJson[];
}

/** The keys of the caller's namespace that wait for a decision. */
export interface UndecidedJson {
  readonly count: number;
  /** False: there may be more than were counted, and an older one. */
  readonly isComplete: boolean;
  readonly oldestLapsedAt: number | null;
}

/** `GET /v1/namespaces`. */
export interface NamespacePageJson {
  readonly namespaces: readonly string[];
  readonly next: string | null;
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

/** How often each answer was given; `stopped` is the sum of those that stopped a duplicate. */
export type CountsJson = Readonly<Record<Counted | "stopped", number>>;

/** `GET /v1/figures`. */
export interface FiguresJson {
  readonly isComplete: boolean;
  readonly total: CountsJson;
  readonly operations: readonly (CountsJson & {
    readonly namespace: string;
    readonly operation: string;
    readonly door: string;
  })[];
  readonly hours: readonly (CountsJson & { readonly at: number })[];
}

/** A network of `GET /v1/pipelines`. */
export interface NetworkJson {
  readonly id: string;
  readonly version: string;
  readonly startedAt: number;
  readonly hiddenNodes: number;
  readonly nodes: readonly NetworkNodeJson[];
  /** `charge.charged` to `ship.in`. */
  readonly edges: readonly { readonly from: string; readonly to: string }[];
  readonly exposed: {
    readonly in: Readonly<Record<string, string>>;
    readonly out: Readonly<Record<string, string>>;
  };
}

export interface NetworkNodeJson {
  readonly name: string;
  readonly kind: "source" | "transform" | "router" | "sink";
  readonly intent: string | null;
  readonly owner: string | null;
  readonly in: readonly string[];
  readonly out: readonly string[];
  readonly buffer: number;
  readonly key: readonly string[] | null;
  /** The scope of its keys, by which `GET /v1/keys` lists them. */
  readonly keyScope: string | null;
  readonly retries: number;
  readonly timeoutMs: number | null;
  readonly effects: readonly string[];
  readonly concurrency: number;
  readonly groups: "batch" | "join" | null;
}

/** What happened in a network, in the live figures. */
export interface NetworkFiguresJson {
  readonly id: string;
  readonly status: "running" | "stopping" | "stopped";
  readonly underWay: number;
  readonly notFollowed: number;
  readonly nodes: readonly NodeFiguresJson[];
}

export interface NodeFiguresJson extends NodeMinute {
  readonly name: string;
  readonly waiting: number;
  readonly active: number;
  readonly restarts: number;
  readonly held: number | null;
}

/** `GET /v1/pipelines/{network}/journeys/{number}`. */
export type JourneyJson = Journey;

export interface JourneyPageJson {
  readonly journeys: readonly Omit<Journey, "steps">[];
}
