/** Reservations: holds that are confirmed, released or expired exactly once, with stored records that prove it. */

export type {
  Actions,
  CapacityRequest,
  CommitmentRequest,
  HoldRequest,
  Keyed,
  KeyedAction,
  ResourceRequest,
  UnitsRequest,
} from "./actions.ts";
export type { Answer, Denial, Done, Placed, Reason, Rejected } from "./answer.ts";
export type { Anchor, AnchoredChain } from "./audit/anchor.ts";
export type { InvariantResult, Offender } from "./audit/findings.ts";
export type { InvariantId } from "./audit/invariants.ts";
export type { AuditData, AuditPage, AuditPageRow, AuditPageSection, AuditStatus } from "./audit/report.ts";
export type { Counts } from "./audit/rounds.ts";
export type {
  Double,
  DoubleSide,
  Doubles,
  DoublesQuery,
  KeyTrace,
  Trace,
  TracedEvent,
} from "./audit/trace.ts";
export type { AuditOptions, Auditor, AuditReport, Configuration } from "./audit.ts";
export { AUDIT_DEFAULTS } from "./audit.ts";
export type { ActorQuestion, Authorize } from "./authorization.ts";
export type { CommitmentState } from "./commitment.ts";
export type { Erasure, ErasureRequest } from "./erasure.ts";
export type { InsideAnswer, InsideOptions } from "./inside.ts";
export type { Checkpoint, EventKind, JournalEvent } from "./journal.ts";
export type { CommitmentsQuery, CommitmentView, HeldQuery, Paging } from "./reads.ts";
export type { Resource, ResourceState } from "./registry.ts";
export type { Reservations, ReservationsOptions } from "./reservations.ts";
export { createReservations, RESERVATION_DEFAULTS, WINDOWS } from "./reservations.ts";
export type {
  Availability,
  CommitmentQuery,
  KeptCommitment,
  KeptResource,
  KeyRecord,
  Page,
  PageQuery,
  ReservationStore,
} from "./store.ts";
export type { UnreadableRow } from "./stored-rows.ts";
