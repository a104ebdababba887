/**
 * What a store may do to the record of one key, as a model of its own: docs/guarantees.md as code. It shares nothing with the
 * state machine of the library, which it judges.
 *
 * The clock of the store decides when leases and retention end. The model knows that clock only within bounds: the moment at
 * which an operation took effect lies between its request and its answer. So each end is a span of time, and an operation
 * inside of a span may find the record either way.
 */
import type { ClaimAnswer, RecordState } from "nevertwice";
import type { KeyAnswer, KeyCall, KeyOperation, SeenRecord } from "./history.ts";
import {
  type ClockBounds,
  endSpan,
  FORGOTTEN,
  gone,
  isOutcome,
  type KeyState,
  withFence,
  withLease,
} from "./key-state.ts";

/** How an operation may find the record. */
type View = "absent" | RecordState;

export interface ModelStep {
  /** What happened, for the count of what a history covers: `lapsed claim new`. */
  readonly what: string;
  readonly next: KeyState;
}

/** Every way in which the operation may take effect on the record with the answer that it got; empty if there is none. */
export function modelSteps(state: KeyState, operation: KeyOperation, bounds: ClockBounds): ModelStep[] {
  return viewsAt(state, operation).flatMap((view) => {
    const found = view === "absent" && state.state !== "absent" ? gone(state, bounds) : state;
    return outcomesFor(found, view, operation, bounds).map(({ answer, next }) => ({
      what: `${view} ${operation.call.kind} ${answer}`,
      next,
    }));
  });
}

function viewsAt(record: KeyState, { sentAt, answeredAt }: KeyOperation): readonly View[] {
  const { state, hold, spent, leaseEnd, keptUntil } = record;
  if (state === "absent") return ["absent"];
  const neverExpires = state === "pending" && hold;
  const mayBeGone = !neverExpires && answeredAt >= keptUntil.from;
  if (mayBeGone && sentAt >= keptUntil.by) return ["absent"];
  const views: View[] = mayBeGone ? ["absent"] : [];
  if (state !== "pending") return [state, ...views];
  if (!spent && sentAt < leaseEnd.by) views.unshift("pending");
  if (spent || answeredAt >= leaseEnd.from) views.unshift("lapsed");
  return views;
}

interface ModelEffect {
  /** For the count of what a history covers. */
  readonly answer: string;
  readonly next: KeyState;
}

function outcomesFor(
  record: KeyState,
  view: View,
  operation: KeyOperation,
  bounds: ClockBounds,
): readonly ModelEffect[] {
  const { call, answer } = operation;
  switch (call.kind) {
    case "claim":
      return claimEffects(record, view, call, { operation, bounds });
    case "read":
      return readEffects(record, view, answer);
    case "forget":
      return forgetEffects(record, view, call, { operation, bounds });
    default:
      return stepEffects(record, view, call, { operation, bounds });
  }
}

interface StepMoment {
  readonly operation: KeyOperation;
  readonly bounds: ClockBounds;
}

type ModelClaim = Extract<KeyCall, { kind: "claim" }>;

/** A claim that was never answered matters only if it was granted. */
function claimEffects(
  record: KeyState,
  view: View,
  call: ModelClaim,
  moment: StepMoment,
): readonly ModelEffect[] {
  const answer = moment.operation.answer as ClaimAnswer | undefined;
  const refused = (status: string, next: KeyState | undefined = record): readonly ModelEffect[] =>
    answer?.status === status && next !== undefined ? [{ answer: status, next }] : [];
  // A claim that does not wait for a step that is being written has seen no record: the caller asks again.
  if (answer?.status === "pending" && answer.elapsedMs === undefined) return refused("pending");
  if (view === "absent")
    return call.takeover === undefined ? granted(record, undefined, call, moment) : refused("pending");
  if (view !== "released" && differs(record.fingerprint, call.fingerprint))
    return answer?.status === "conflict" && answer.state === view ? refused("conflict") : [];
  if (view === "completed") {
    const isSame = answer?.status === "completed" && isOutcome(record, answer.outcome);
    return isSame ? refused("completed") : [];
  }
  if (record.token === call.token)
    return record.spent ? refused("pending") : recognised(record, call, moment);
  if (view === "pending") return refused("pending");
  if (view === "released")
    return call.takeover === undefined ? granted(record, record, call, moment) : refused("pending");
  if (call.takeover !== undefined) return takenOver(record, call, moment);
  if (!record.hold && !call.hold) return granted(record, record, call, moment);
  return answer?.status === "unknown" ? refused("unknown", withFence(record, answer.fence)) : [];
}

function takenOver(record: KeyState, call: ModelClaim, moment: StepMoment): readonly ModelEffect[] {
  const { answer } = moment.operation;
  const meant = withFence(record, call.takeover as number);
  const done = meant === undefined ? [] : granted(meant, meant, call, moment);
  const claimed = answer as ClaimAnswer | undefined;
  if (claimed?.status !== "unknown" || claimed.fence === call.takeover) return done;
  const next = withFence(record, claimed.fence);
  return next === undefined ? done : [...done, { answer: "unknown", next }];
}

/** The claim begins a new attempt. `before`: the released or lapsed record that it replaces. */
function granted(
  found: KeyState,
  before: KeyState | undefined,
  call: ModelClaim,
  { operation, bounds }: StepMoment,
): readonly ModelEffect[] {
  const answer = operation.answer as ClaimAnswer | undefined;
  const lapsed = before?.state === "pending" ? before : undefined;
  const number = (before?.number ?? 0) + 1;
  const tookOver = lapsed !== undefined;
  const above = found.state === "absent" ? found.above : (found.fence ?? found.above + 1);
  if (answer !== undefined) {
    if (answer.status !== "new" || answer.number !== number || answer.tookOver !== tookOver) return [];
    if (answer.fence <= above) return [];
  }
  const { leaseMs, retentionMs } = call;
  const next: KeyState = {
    state: "pending",
    token: call.token,
    spent: false,
    fence: answer?.fence,
    above,
    number,
    hold: call.hold || (lapsed?.hold ?? false),
    tookOver,
    fingerprint: call.fingerprint ?? lapsed?.fingerprint,
    outcome: undefined,
    retentionMs,
    leaseEnd: endSpan(operation, leaseMs, bounds),
    keptUntil: endSpan(operation, leaseMs + retentionMs, bounds),
  };
  return [{ answer: tookOver ? "taken over" : "new", next }];
}

/** A repetition of the claim that owns the record: it gets the same answer again, and a whole lease. */
function recognised(
  record: KeyState,
  call: ModelClaim,
  { operation, bounds }: StepMoment,
): readonly ModelEffect[] {
  const answer = operation.answer as ClaimAnswer | undefined;
  const renewed = { ...withLease(record, call.leaseMs, operation, bounds), hold: record.hold || call.hold };
  if (answer === undefined) return [{ answer: "own", next: renewed }];
  if (answer.status !== "new" || answer.number !== record.number || answer.tookOver !== record.tookOver)
    return [];
  const next = withFence(renewed, answer.fence);
  return next === undefined ? [] : [{ answer: "own", next }];
}

function readEffects(record: KeyState, view: View, answer: KeyAnswer | undefined): readonly ModelEffect[] {
  if (view === "absent") return answer === null ? [{ answer: "nothing", next: record }] : [];
  const seen = answer as SeenRecord | null;
  if (seen === null || seen.state !== view || seen.token !== record.token) return [];
  if (seen.number !== record.number || seen.hold !== record.hold) return [];
  if ((seen.fingerprint ?? undefined) !== record.fingerprint || !isOutcome(record, seen.outcome)) return [];
  const next = withFence(record, seen.fence);
  return next === undefined ? [] : [{ answer: "record", next }];
}

type ForgetCall = Extract<KeyCall, { kind: "forget" }>;

function forgetEffects(
  record: KeyState,
  view: View,
  { fence, reopen }: ForgetCall,
  { operation: { answer }, bounds }: StepMoment,
): readonly ModelEffect[] {
  const meant = view === "absent" ? undefined : withFence(record, fence);
  const mayRefuse = view === "pending" || record.fence !== fence;
  const refused = answer === false && mayRefuse ? [{ answer: "false", next: record }] : [];
  if (meant === undefined || view === "pending" || answer === false) return refused;
  if (view !== "completed") return [{ answer: "true", next: gone(meant, bounds) }];
  const next: KeyState = reopen
    ? { ...meant, state: "released", spent: true, outcome: undefined }
    : { ...meant, fingerprint: undefined, outcome: FORGOTTEN };
  return [{ answer: reopen ? "reopened" : "true", next }];
}

type StepCall = Extract<KeyCall, { kind: "complete" | "abandon" | "renew" }>;

function stepEffects(
  record: KeyState,
  view: View,
  call: StepCall,
  moment: StepMoment,
): readonly ModelEffect[] {
  const { answer } = moment.operation;
  const done = view !== "absent" && record.token === call.token ? stepped(record, call, moment) : undefined;
  if (done === undefined) return answer === false ? [{ answer: "false", next: record }] : [];
  // A step that was never answered and changes nothing explains nothing.
  if (answer === false || (answer === undefined && done === record)) return [];
  return [{ answer: "true", next: done }];
}

/** The record after the owner's step; undefined if the step is refused. */
function stepped(record: KeyState, call: StepCall, { operation, bounds }: StepMoment): KeyState | undefined {
  const { state, spent, tookOver } = record;
  if (call.kind === "complete") {
    if (state === "released") return undefined;
    if (state === "completed") return record;
    const { outcome, retentionMs } = call;
    const keptUntil = endSpan(operation, retentionMs, bounds);
    return { ...record, state: "completed", outcome, retentionMs, keptUntil };
  }
  if (call.kind === "renew")
    return state === "pending" && !spent ? withLease(record, call.leaseMs, operation, bounds) : undefined;
  if (state === "completed") return undefined;
  if (spent) return record;
  const isFree = call.as === "released" || (call.as === "unrun" && !tookOver);
  return { ...record, state: isFree ? "released" : "pending", spent: true };
}

/** Fingerprints of different versions, the text before the colon, are never compared. */
function differs(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined || a === b) return false;
  return a.split(":")[0] === b.split(":")[0];
}
