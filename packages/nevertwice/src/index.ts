/** nevertwice: an operation runs once and returns the same result every time. */
export type { Attempt, Work } from "./core/attempt.ts";
export type { BatchOptions } from "./core/batch.ts";
export type { Clock } from "./core/clock.ts";
export type { GuardOptions } from "./core/engine.ts";
export {
  ERROR_CODES,
  type ErrorCode,
  isNevertwiceError,
  NevertwiceError,
  type NevertwiceErrorOf,
} from "./core/errors.ts";
export { actionKey, compositeKey, eventKey, type Key, type KeyPart, operationKey } from "./core/key.ts";
export type { Windows } from "./core/live-policy.ts";
export type { GuardEvent, Observer } from "./core/observer.ts";
export type { ForgetReport, ListOptions, RecordPage } from "./core/operator.ts";
export type { Outcome } from "./core/outcome.ts";
export type { Decision, LapsedClaim, Policy, PolicyOptions } from "./core/policy.ts";
export type { RecordView, StepView } from "./core/record-view.ts";
export type { RunRequest, Subject } from "./core/request.ts";
export type { RunResult } from "./core/result.ts";
export type { LeftRunning } from "./core/running-attempts.ts";
export type {
  AbandonRequest,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  KeepStepRequest,
  KeptAttempt,
  KeptStep,
  ListOrder,
  ListPage,
  ListRequest,
  NamespacePage,
  NamespacesRequest,
  OverdueReport,
  Parts,
  PurgeReport,
  RecordHistory,
  RecordState,
  RenewRequest,
  Store,
  StoreRecord,
  UndecidedReport,
  UndecidedRequest,
  UnreadableRecord,
  WatchRequest,
} from "./core/store.ts";
export type { Claimed, Completion, HeldRequest, Refusal } from "./functions/claim.ts";
export { idempotent } from "./functions/decorator.ts";
export type { ExclusiveOptions, Lock } from "./functions/exclusive.ts";
export { createGuard, type Guard } from "./functions/guard.ts";
export type { MarkOptions, SeenOptions } from "./functions/mark.ts";
export type { WrapOptions } from "./functions/wrap.ts";
