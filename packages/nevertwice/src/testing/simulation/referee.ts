/**
 * Watches every step that reaches the store and every answer that reaches a caller, and says when a promise is broken.
 * It keeps its own notes of each record, written from the contract and not from the code under test.
 */
import { fingerprintsDiffer } from "../../core/fingerprint.ts";
import { decodeOutcome } from "../../core/outcome.ts";
import type {
  AbandonRequest,
  ClaimAnswer,
  ClaimRequest,
  CompleteRequest,
  RenewRequest,
} from "../../core/store.ts";

/** The invariants of docs/guarantees.md that a simulation can see. */
export type Invariant = "I1" | "I2" | "I3" | "I6" | "I7" | "I8" | "I12";

export interface Violation {
  readonly invariant: Invariant;
  readonly what: string;
}

/** What the referee knows of one record. */
interface Note {
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
  bytes: string;
}

/** What the referee knows of one token. */
interface Tenure {
  readonly owner: string;
  readonly id: string;
  /** True time of the last grant or renewal. */
  grantedAt: number;
  leaseMs: number;
  /** An answer to a claim, a complete or an abandon came back to whoever sent it. */
  isAnswered: boolean;
  /** A `new` came back to whoever sent it, at any time. */
  isKnownNew: boolean;
  /** The store has been told how the latest grant ended; and that answer came back. */
  isTold: boolean;
  isSettled: boolean;
  work: "unstarted" | "running" | "returned" | "threw" | "threw-unsure";
}

export interface Referee {
  /** Writes a line of the schedule's story, if somebody reads it. */
  readonly tell: (line: () => string) => void;
  readonly violation: Violation | undefined;
  readonly counts: Record<string, number>;
  fail(invariant: Invariant, what: string): void;
  /** Told of a step when the store has applied it. `now` is the store's clock. */
  claimed(owner: string, request: ClaimRequest, answer: ClaimAnswer, now: number): void;
  completed(request: CompleteRequest, answer: boolean, now: number): void;
  abandoned(request: AbandonRequest, answer: boolean, now: number): void;
  renewed(request: RenewRequest, answer: boolean, now: number): void;
  /** Told of an answer when it reaches the process that asked. */
  delivered(method: string, token: string, answer: unknown): void;
  /** The work of the attempt with this fence starts, or ends. The answer names the attempt. */
  started(id: string, fence: number): Tenure | undefined;
  /** A process works on a key without a claim, and without end: its claims of it stay as they are. */
  excuse(owner: string, id: string): void;
  /** Everything has come to rest: what do processes that still live owe? */
  checkDebts(isAlive: (owner: string) => boolean): void;
  /** Whether this run's outcome was ever recorded for this record. */
  hasOutcome(id: string, run: string): boolean;
  /** Whatever was past its time is gone, and stays gone if the clock goes back. */
  purged(now: number): void;
}

/** The margin of the contract's rule for clocks that went back. */
const CLOCK_BACK_MARGIN_MS = 1_000;

export function createReferee(trueNow: () => number, story?: string[]): Referee {
  const notes = new Map<string, Note>();
  const highestFence = new Map<string, number>();
  const tenures = new Map<string, Tenure>();
  const byFence = new Map<string, Tenure>();
  const outcomes = new Map<string, Set<string>>();
  const excused = new Set<string>();
  const counts: Record<string, number> = {};
  let violation: Violation | undefined;

  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };

  const tell = (line: () => string) => void story?.push(`${trueNow().toFixed(1)} ms  ${line()}`);

  function fail(invariant: Invariant, what: string): void {
    violation ??= { invariant, what };
    tell(() => `BROKEN ${invariant}: ${what}`);
  }

  function live(id: string, now: number): Note | undefined {
    const note = notes.get(id);
    if (note === undefined) return undefined;
    const isDecidable = note.state === "pending" && note.hold;
    return isDecidable || now < note.keptUntil ? note : undefined;
  }

  const isLapsed = (note: Note, now: number) =>
    note.state === "pending" && (note.isSpent || now >= note.leaseEndsAt);

  function grant(request: ClaimRequest, answer: ClaimAnswer & { status: "new" }, now: number): void {
    const { id, token, fingerprint, leaseMs, retentionMs } = request;
    const note = live(id, now);
    const isRepeat = note?.state === "pending" && note.token === token && !note.isSpent;
    if (note !== undefined) checkGrant(note, request, isRepeat, now);
    if (isRepeat && answer.fence !== note.fence)
      fail("I1", `a repeated claim was given fence ${answer.fence} instead of ${note.fence}`);
    if (!isRepeat) {
      const highest = highestFence.get(id) ?? 0;
      if (answer.fence <= highest) fail("I1", `fence ${answer.fence} was given after ${highest}`);
      highestFence.set(id, answer.fence);
    }
    const lapsed = note?.state === "pending" ? note : undefined;
    if (lapsed !== undefined && !isRepeat) count("takeover");
    notes.set(id, {
      state: "pending",
      token,
      isSpent: false,
      fence: answer.fence,
      hold: request.hold || (lapsed?.hold ?? false),
      tookOver: isRepeat ? note.tookOver : lapsed !== undefined,
      fingerprint: isRepeat ? note.fingerprint : (fingerprint ?? lapsed?.fingerprint),
      leaseMs,
      leaseEndsAt: now + leaseMs,
      retentionMs,
      keptUntil: now + leaseMs + retentionMs,
      bytes: "",
    });
    const tenure = tenures.get(token);
    if (tenure === undefined) return;
    tenure.grantedAt = trueNow();
    tenure.leaseMs = leaseMs;
    // Whatever was said before this grant was said about an earlier one.
    tenure.isTold = false;
    tenure.isSettled = false;
    byFence.set(`${id} ${answer.fence}`, tenure);
  }

  function checkGrant(note: Note, request: ClaimRequest, isRepeat: boolean, now: number): void {
    if (note.state === "completed") fail("I2", "a key whose outcome still answers was claimed again");
    if (note.state === "pending" && note.token === request.token && note.isSpent)
      fail("I3", "a token that gave up claimed again");
    if (note.state !== "pending" || isRepeat) return;
    if (!isLapsed(note, now)) return fail("I3", "a key was handed over while its lease ran");
    const isHeld = note.hold || request.hold;
    if (request.takeover === undefined ? isHeld : request.takeover !== note.fence) {
      fail("I12", "a lapsed claim that was held was taken over without a decision");
    }
  }

  function checkRefusal(request: ClaimRequest, answer: ClaimAnswer, now: number): void {
    const note = live(request.id, now);
    if (answer.status === "completed") {
      if (note?.state !== "completed") return fail("I2", "an outcome was replayed that no longer answers");
      if (note.bytes !== textOf(answer.outcome))
        fail("I6", "an outcome was replayed that is not the one stored");
      count("replay");
    }
    if (answer.status !== "pending") return;
    const isOwnSpent = note?.token === request.token && note.isSpent;
    const mayWait = note?.state === "pending" && !isLapsed(note, now);
    if (!mayWait && !isOwnSpent && request.takeover === undefined)
      fail("I8", "a key that is free was said to be pending");
    if (note !== undefined && mayWait && note.leaseEndsAt - now > note.leaseMs + CLOCK_BACK_MARGIN_MS) {
      note.leaseEndsAt = now + note.leaseMs;
      note.keptUntil = note.leaseEndsAt + note.retentionMs;
      count("clock-went-back");
    }
  }

  return {
    tell,
    get violation() {
      return violation;
    },
    counts,
    fail,
    claimed(owner, request, answer, now) {
      const { token, id } = request;
      if (!tenures.has(token)) {
        tenures.set(token, {
          owner,
          id,
          grantedAt: 0,
          leaseMs: 0,
          isAnswered: false,
          isKnownNew: false,
          isTold: false,
          isSettled: false,
          work: "unstarted",
        });
      }
      count(`claim ${answer.status}`);
      tell(() => `store: claim ${token} ${id.slice(0, 4)} -> ${JSON.stringify(answer, shortBytes)}`);
      const note = live(id, now);
      const isOther =
        note !== undefined &&
        note.state !== "released" &&
        fingerprintsDiffer(note.fingerprint, request.fingerprint);
      if (isOther !== (answer.status === "conflict")) {
        fail(
          "I2",
          `a claim whose fingerprint ${isOther ? "differs" : "does not differ"} was answered ${answer.status}`,
        );
      }
      if (answer.status === "new") grant(request, answer, now);
      else checkRefusal(request, answer, now);
    },
    completed({ id, token, outcome, retentionMs }, answer, now) {
      tell(() => `store: complete ${token} ${id.slice(0, 4)} -> ${answer}`);
      const note = live(id, now);
      const isOwn = note?.token === token && note.state !== "released";
      const tenure = tenures.get(token);
      if (tenure !== undefined) tenure.isTold = true;
      if (answer !== isOwn)
        fail(
          "I3",
          answer
            ? "a completion was accepted from a token that does not own the key"
            : "the owner's completion was refused",
        );
      if (!answer || note === undefined || note.state === "completed") return;
      note.state = "completed";
      note.bytes = textOf(outcome);
      note.keptUntil = now + retentionMs;
      outcomes.set(id, (outcomes.get(id) ?? new Set()).add(runOf(outcome)));
      count("completed");
    },
    abandoned({ id, token, as }, answer, now) {
      tell(() => `store: abandon ${token} ${id.slice(0, 4)} as ${as} -> ${answer}`);
      const note = live(id, now);
      const isOwn = note?.token === token && note.state !== "completed";
      if (answer !== isOwn)
        fail(
          "I3",
          answer
            ? "a key was given up by a token that does not own it"
            : "the owner could not give its key up",
        );
      const tenure = tenures.get(token);
      if (tenure !== undefined) tenure.isTold = true;
      const work = tenure?.work;
      if (work === "running") fail("I3", `a key was given up (${as}) while its work was running`);
      if (work === "threw-unsure" && as === "released")
        fail("I12", "work that was cut off was called a failure");
      if (work !== undefined && work !== "unstarted" && as === "unrun")
        fail("I12", "work that had started was said not to have run");
      if (!answer || note === undefined || note.isSpent) return;
      note.isSpent = true;
      count(`abandoned ${as}`);
      if (as === "released" || (as === "unrun" && !note.tookOver)) note.state = "released";
    },
    renewed({ id, token, leaseMs }, answer, now) {
      tell(() => `store: renew ${token} ${id.slice(0, 4)} -> ${answer}`);
      const note = live(id, now);
      const isOwn = note?.token === token && note.state === "pending" && !note.isSpent;
      if (answer !== isOwn)
        fail("I3", answer ? "a lease was renewed that had no owner" : "the owner's lease was not renewed");
      if (!answer || note === undefined) return;
      note.leaseMs = leaseMs;
      note.leaseEndsAt = now + leaseMs;
      note.keptUntil = note.leaseEndsAt + note.retentionMs;
      const tenure = tenures.get(token);
      if (tenure !== undefined) tenure.grantedAt = trueNow();
      count("renewed");
    },
    delivered(method, token, answer) {
      tell(() => `reply: ${method} ${token} ${JSON.stringify(answer, shortBytes)}`);
      const tenure = tenures.get(token);
      if (tenure === undefined) return;
      tenure.isAnswered = true;
      if (method === "claim" && (answer as ClaimAnswer).status === "new") tenure.isKnownNew = true;
      if (method === "complete" || method === "abandon") tenure.isSettled = tenure.isTold;
    },
    started(id, fence) {
      tell(() => `work: starts ${id.slice(0, 4)} under fence ${fence}`);
      const tenure = byFence.get(`${id} ${fence}`);
      if (tenure === undefined) {
        fail("I3", `work started under fence ${fence}, which no claim was given`);
        return undefined;
      }
      if (tenure.work !== "unstarted") fail("I1", `two attempts ran under fence ${fence}`);
      if (trueNow() >= tenure.grantedAt + tenure.leaseMs)
        fail("I3", "work started on a lease that had already ended");
      tenure.work = "running";
      return tenure;
    },
    excuse: (owner, id) => void excused.add(`${owner} ${id}`),
    checkDebts(isAlive) {
      for (const [token, tenure] of tenures) {
        if (
          !isAlive(tenure.owner) ||
          tenure.work === "running" ||
          excused.has(`${tenure.owner} ${tenure.id}`)
        )
          continue;
        if (!tenure.isAnswered) fail("I8", "a process forgot a claim whose answer it never had");
        if (tenure.work !== "unstarted" && !tenure.isSettled)
          fail("I2", "a process gave up telling the store how its work ended");
        const note = notes.get(tenure.id);
        const isStranded =
          note?.token === token && note.state === "pending" && !note.isSpent && !tenure.isSettled;
        if (isStranded && tenure.isKnownNew) fail("I8", "a process sits on a claim that it does not work on");
      }
    },
    hasOutcome: (id, run) => outcomes.get(id)?.has(run) ?? false,
    purged(now) {
      for (const id of notes.keys()) if (live(id, now) === undefined) notes.delete(id);
    },
  };
}

/** Which run an outcome is of: works say so in what they return and throw. */
function runOf(bytes: Uint8Array): string {
  const outcome = decodeOutcome(bytes);
  if (outcome.kind === "value") return (outcome.value as { run: string }).run;
  return outcome.kind === "thrown" ? (outcome.error as Error).message : outcome.reason;
}

const shortBytes = (_: string, value: unknown) =>
  value instanceof Uint8Array ? `${value.length} bytes` : value;

function textOf(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
