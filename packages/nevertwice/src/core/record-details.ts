/** A record as lists show it, and as `read` does: a page of records must not cost the history of each. */
import { historyIn } from "./kept-history.ts";
import { hasSteps, stepsIn } from "./kept-steps.ts";
import { type KeptOutcome, outcomeText } from "./outcome.ts";
import { type Kept, lapsedAt, stateOf } from "./record.ts";
import type { StoreRecord } from "./store.ts";

/** The record as `read` shows it. */
export function toDetails(record: Kept<KeptOutcome>, now: number): StoreRecord {
  const view = viewOf(record, now);
  return { ...view, history: historyIn(record, view.state) };
}

/** The record as lists show it. */
export function viewOf(record: Kept<KeptOutcome>, now: number): StoreRecord {
  const { id, parts, fingerprint, token, fence, number, hold, claimedAt, completedAt, keptUntil, outcome } =
    record;
  const state = stateOf(record, now);
  const leaseLeftMs = state === "pending" ? record.leaseEndsAt - now : 0;
  const view = {
    id,
    parts,
    fingerprint,
    state,
    token,
    fence,
    number,
    hold,
    claimedAt,
    leaseLeftMs,
    completedAt,
    keptUntil,
    outcome: outcome === undefined ? undefined : outcomeText(outcome),
    ...(state === "lapsed" && { lapsedAt: lapsedAt(record, now) }),
  };
  return state === "completed" || !hasSteps(record) ? view : { ...view, steps: stepsIn(id, record) };
}
