/**
 * Watches every step that reaches the store and every answer that reaches a caller, and reports a broken invariant.
 * It keeps its own notes of each record, written from the contract and not from the code under test.
 */
import { fingerprintsDiffer } from "../../core/fingerprint.ts";
import { decodeOutcome } from "../../core/outcome.ts";
import type {
  AbandonRequest,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  KeepStepRequest,
  RenewRequest,
} from "../../core/store.ts";
import type { Fail, Violation } from "./invariant.ts";
import { createTenures, finishStep, type Tenure, type Tenures } from "./tenures.ts";

/** What the referee knows of one record. */
interface RecordNote {
  state: "pending" | "released" | "completed";
  token: string;
  isSpent: boolean;
  fence: number;
  hold: boolean;
  tookOver: boolean;
  fingerprint: string | undefined;
  leaseMs: number;
  leaseEndsAt: number;
  retentionMs: number;
  keptUntil: number;
  outcome: string;
  /** The finished steps, each with its outcome. */
  steps: readonly (readonly [name: string, outcome: string])[];
  /** When each process first saw this lease, for a store whose clients judge by what they have seen. */
  firstSeen: Map<string, number>;
}

export interface Referee extends Pick<Tenures, "delivered" | "started" | "excuse"> {
  readonly violation: Violation | undefined;
  readonly counts: Record<string, number>;
  readonly fail: Fail;
  readonly count: (what: string) => void;
  /** Adds a line to the schedule's story, if it is recorded. */
  readonly tell: (line: () => string) => void;
  /** Records a step that the store has applied. `now` is the store's clock. */
  claimed(owner: string, request: ClaimRequest, answer: ClaimAnswer, now: number): void;
  completed(request: CompleteRequest, answer: boolean, now: number): void;
  abandoned(request: AbandonRequest, answer: boolean, now: number): void;
  renewed(request: RenewRequest, answer: boolean, now: number): void;
  stepKept(request: KeepStepRequest, answer: boolean, now: number): void;
  /** The work of a step starts. `before` is the step in front of it. */
  stepStarted(tenure: Tenure | undefined, name: string, before: string | undefined): void;
  /** Expired records are gone, and stay gone if the clock goes back. */
  purged(now: number): void;
  checkDebts(isAlive: (owner: string) => boolean): void;
  /** Whether this run's outcome was ever recorded for this record. */
  hasOutcome(id: string, run: string): boolean;
}

/** The margin of the contract's rule for clocks that went back. */
const CLOCK_BACK_MARGIN_MS = 1_000;

/**
 * `clockSkewMs` is given for a store whose clients have their own clocks: records are kept so much longer, and a lease has
 * ended for a process only when it has seen it for as long as it lasts.
 */
export function createReferee(trueNow: () => number, story?: string[], clockSkewMs?: number): Referee {
  const notes = new Map<string, RecordNote>();
  const highestFence = new Map<string, number>();
  const outcomes = new Map<string, Set<string>>();
  const counts: Record<string, number> = {};
  let violation: Violation | undefined;

  const tell = (line: () => string) => void story?.push(`${trueNow().toFixed(1)} ms  ${line()}`);

  const fail: Fail = (invariant, what) => {
    violation ??= { invariant, what };
    tell(() => `BROKEN ${invariant}: ${what}`);
  };

  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };

  const tenures = createTenures(trueNow, fail);

  function live(id: string, now: number): RecordNote | undefined {
    const note = notes.get(id);
    if (note === undefined) return undefined;
    const isUndecided = note.state === "pending" && note.hold;
    return isUndecided || now < note.keptUntil ? note : undefined;
  }

  function grant(request: ClaimRequest, answer: ClaimAnswer & { status: "new" }, now: number): void {
    const { id, token, fingerprint, leaseMs, retentionMs } = request;
    const note = live(id, now);
    const isRepeat = note?.state === "pending" && note.token === token && !note.isSpent;
    if (note !== undefined) checkGrant(note, request, isRepeat, now);
    const highest = highestFence.get(id) ?? 0;
    if (isRepeat ? answer.fence !== note.fence : answer.fence <= highest)
      fail(
        "I1",
        `fence ${answer.fence} was given to ${isRepeat ? "a repeat" : "a new attempt"} after ${highest}`,
      );
    highestFence.set(id, answer.fence);
    const steps = note?.steps ?? [];
    checkSteps(answer, steps);
    const lapsed = note?.state === "pending" ? note : undefined;
    const continued = steps.length > 0 ? note : lapsed;
    if (lapsed !== undefined && !isRepeat) count("takeover");
    notes.set(id, {
      state: "pending",
      token,
      isSpent: false,
      fence: answer.fence,
      hold: request.hold || (lapsed?.hold ?? false),
      tookOver: isRepeat ? note.tookOver : lapsed !== undefined,
      fingerprint: isRepeat ? note.fingerprint : (fingerprint ?? continued?.fingerprint),
      leaseMs,
      leaseEndsAt: now + leaseMs,
      retentionMs: retentionMs + (clockSkewMs ?? 0),
      keptUntil: now + leaseMs + retentionMs + (clockSkewMs ?? 0),
      outcome: "",
      steps,
      firstSeen: new Map(),
    });
    tenures.granted(token, { fence: answer.fence, leaseMs, steps: steps.map(([name]) => name) });
  }

  function checkSteps({ steps = [] }: ClaimAnswer & { status: "new" }, finished: RecordNote["steps"]): void {
    if (finished.length > 0) count("claim finds steps");
    const answered = steps.map(({ name, outcome }) => [name, outcome]);
    if (JSON.stringify(answered) !== JSON.stringify(finished))
      fail("I13", "a claim was answered with other steps than those that are finished");
  }

  function checkGrant(note: RecordNote, request: ClaimRequest, isRepeat: boolean, now: number): void {
    if (note.state === "completed") fail("I2", "a key whose outcome still answers was claimed again");
    if (note.token === request.token && note.isSpent) fail("I3", "a token that gave up claimed again");
    if (note.state !== "pending" || isRepeat) return;
    if (!isLapsed(note, now)) fail("I3", "a key was handed over while its lease ran");
    const isHeld = note.hold || request.hold;
    if (request.takeover === undefined ? isHeld : request.takeover !== note.fence)
      fail("I12", "a lapsed claim that was held was taken over without a decision");
  }

  function checkReplay(outcome: string, note: RecordNote | undefined): void {
    count("replay");
    if (note?.state !== "completed") fail("I2", "an outcome was replayed that no longer answers");
    else if (note.outcome !== outcome) fail("I6", "an outcome was replayed that is not the one stored");
  }

  /** Whether this process has not yet seen the lease for as long as it lasts. */
  function isBeingObserved(owner: string, note: RecordNote, now: number): boolean {
    if (clockSkewMs === undefined || note.isSpent) return false;
    const since = note.firstSeen.get(owner) ?? now;
    note.firstSeen.set(owner, since);
    return now < since + note.leaseMs;
  }

  function checkPending(
    owner: string,
    request: ClaimRequest,
    note: RecordNote | undefined,
    now: number,
  ): void {
    const isOwnSpent = note?.token === request.token && note.isSpent;
    const isRunning =
      note?.state === "pending" && (isBeingObserved(owner, note, now) || !isLapsed(note, now));
    if (!isRunning && !isOwnSpent && request.takeover === undefined)
      fail("I8", "a key that is free was said to be pending");
    if (isRunning && note.leaseEndsAt - now > note.leaseMs + CLOCK_BACK_MARGIN_MS) {
      count("clock-went-back");
      extend(note, note.leaseMs, now);
    }
  }

  return {
    get violation() {
      return violation;
    },
    counts,
    fail,
    count,
    tell,
    claimed(owner, request, answer, now) {
      const { token, id } = request;
      count(`claim ${answer.status}`);
      tell(() => `store: claim ${token} ${id.slice(0, 4)} -> ${JSON.stringify(answer)}`);
      tenures.claimed(owner, token, id);
      const note = live(id, now);
      const isOther =
        note !== undefined &&
        (note.state !== "released" || note.steps.length > 0) &&
        fingerprintsDiffer(note.fingerprint, request.fingerprint);
      if (isOther !== (answer.status === "conflict"))
        fail("I2", `a claim of ${isOther ? "another" : "the same"} meaning was answered ${answer.status}`);
      if (answer.status === "new") grant(request, answer, now);
      if (answer.status === "completed") checkReplay(answer.outcome, note);
      if (answer.status === "pending") checkPending(owner, request, note, now);
    },
    completed({ id, token, outcome, retentionMs }, answer, now) {
      tell(() => `store: complete ${token} ${id.slice(0, 4)} -> ${answer}`);
      tenures.told(token);
      const note = live(id, now);
      const isOwn = note?.token === token && note.state !== "released";
      if (answer !== isOwn)
        fail("I3", `a completion was ${answer ? "accepted from a stranger" : "refused to the owner"}`);
      if (!answer || note === undefined || note.state === "completed") return;
      note.state = "completed";
      note.outcome = outcome;
      note.steps = [];
      note.keptUntil = now + retentionMs + (clockSkewMs ?? 0);
      outcomes.set(id, (outcomes.get(id) ?? new Set()).add(runNamedIn(outcome)));
      count("completed");
    },
    abandoned({ id, token, as }, answer, now) {
      tell(() => `store: abandon ${token} ${id.slice(0, 4)} as ${as} -> ${answer}`);
      const work = tenures.told(token)?.work ?? "unstarted";
      const note = live(id, now);
      const isOwn = note?.token === token && note.state !== "completed";
      if (answer !== isOwn)
        fail("I3", `giving up was ${answer ? "accepted from a stranger" : "refused to the owner"}`);
      if (work === "running") fail("I3", `a key was given up (${as}) while its work was running`);
      if (work === "threw-unsure" && as === "released")
        fail("I12", "work that was cut off was called a failure");
      if (work !== "unstarted" && as === "unrun")
        fail("I12", "work that had started was said not to have run");
      if (!answer || note === undefined || note.isSpent) return;
      note.isSpent = true;
      if (as === "released" || (as === "unrun" && !note.tookOver)) note.state = "released";
      count(`abandoned ${as}`);
    },
    renewed({ id, token, leaseMs }, answer, now) {
      tell(() => `store: renew ${token} ${id.slice(0, 4)} -> ${answer}`);
      const note = live(id, now);
      const isOwn = note?.token === token && note.state === "pending" && !note.isSpent;
      if (answer !== isOwn)
        fail("I3", `a renewal was ${answer ? "accepted from a stranger" : "refused to the owner"}`);
      if (!answer || note === undefined) return;
      extend(note, leaseMs, now);
      tenures.renewed(token);
      count("renewed");
    },
    stepKept({ id, token, name, outcome }, answer, now) {
      tell(() => `store: keepStep ${token} ${id.slice(0, 4)} ${name} -> ${answer}`);
      const note = live(id, now);
      const isOwn = note?.token === token && note.state === "pending" && !note.isSpent;
      if (answer !== isOwn)
        fail("I3", `a step was ${answer ? "accepted from a stranger" : "refused to the owner"}`);
      if (!answer || note === undefined) return;
      const tenure = tenures.get(token);
      if (tenure !== undefined) finishStep(tenure, name);
      if (note.steps.some(([kept]) => kept === name)) return;
      note.steps = [...note.steps, [name, outcome]];
      count("step kept");
    },
    stepStarted(tenure, name, before) {
      count("step started");
      tell(() => `work: step ${name} starts`);
      if (tenure === undefined) return;
      if (tenure.finished.has(name)) fail("I13", "a finished step ran again");
      if (before !== undefined && !tenure.everFinished.has(before))
        fail("I13", "a step started although the one in front of it was not kept");
    },
    purged(now) {
      for (const id of notes.keys()) if (live(id, now) === undefined) notes.delete(id);
    },
    delivered(method, token, answer) {
      tell(() => `reply: ${method} ${token} ${JSON.stringify(answer)}`);
      tenures.delivered(method, token, answer);
    },
    started(id, fence) {
      tell(() => `work: starts ${id.slice(0, 4)} under fence ${fence}`);
      return tenures.started(id, fence);
    },
    excuse: tenures.excuse,
    checkDebts(isAlive) {
      tenures.checkDebts(isAlive, (token, id) => {
        const note = notes.get(id);
        return note?.token === token && note.state === "pending" && !note.isSpent;
      });
    },
    hasOutcome: (id, run) => outcomes.get(id)?.has(run) ?? false,
  };
}

function isLapsed(note: RecordNote, now: number): boolean {
  return note.isSpent || now >= note.leaseEndsAt;
}

function extend(note: RecordNote, leaseMs: number, now: number): void {
  note.leaseMs = leaseMs;
  note.leaseEndsAt = now + leaseMs;
  note.keptUntil = note.leaseEndsAt + note.retentionMs;
  note.firstSeen.clear();
}

/** The run that an outcome belongs to: works name it in what they return and throw. */
function runNamedIn(text: string): string {
  const outcome = decodeOutcome(text);
  if (outcome.kind === "value") return (outcome.value as { run: string }).run;
  return outcome.kind === "thrown" ? (outcome.error as Error).message : outcome.reason;
}
