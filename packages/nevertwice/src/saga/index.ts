/** nevertwice/saga: steps that are done one after another, and undone in reverse order if one of them fails. */
export type { BackoffOptions } from "../core/backoff.ts";
export { type SagaRequest, saga } from "./saga.ts";
export type { SagaResult } from "./saga-result.ts";
export type { RunContext, SagaStep, UndoContext } from "./saga-step.ts";
