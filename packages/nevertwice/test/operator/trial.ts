/**
 * Every decision that an operator can take, at every state of a door's record, and then the request again. A referee
 * looks at the record before each delivery, and so knows whether the effect may run.
 */
import { isNevertwiceError, NevertwiceError } from "../../src/core/errors.ts";
import type { Subject } from "../../src/core/request.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type Door, FrameworkError, type OpenDoor } from "./door.ts";

/** Values that no door, or only another one, would have recorded. */
const VALUES: readonly unknown[] = [
  undefined,
  null,
  "done",
  7,
  {},
  [],
  [200],
  [201, [], "kept"],
  [201, "headers", null],
  { content: [] },
  { _meta: null },
  { answer: null },
  { answer: "text" },
  { answer: { id: "task-1" } },
  { events: 5 },
  { events: [null] },
  { outcome: "failed" },
  { emitted: { charged: { id: "o" } } },
  { emitted: [null] },
  { run: "1", emits: [[]] },
  { reply: null },
  new Date(0),
  new Map([[1, 2]]),
  new Uint8Array([1]),
];

const ERRORS: readonly unknown[] = [
  new Error("decided"),
  new TypeError("decided"),
  new NevertwiceError("pending", "decided"),
  undefined,
  null,
  "",
  "decided",
  { message: "decided" },
];

type Decision = (guard: Guard, subject: Subject) => Promise<unknown>;

const resolving =
  (decision: Parameters<Guard["resolve"]>[1]): Decision =>
  async (guard, subject) => {
    const fence = (await guard.read(subject))?.fence;
    return fence !== undefined && guard.resolve({ ...subject, fence }, decision);
  };

export const DECISIONS: Readonly<Record<string, Decision>> = {
  nothing: async () => {},
  "not done": resolving({ status: "not-done" }),
  forget: (guard, subject) => guard.forget(subject),
  reopen: (guard, subject) => guard.reopen(subject),
  "reopen, then mark": async (guard, subject) => {
    await guard.reopen(subject);
    await guard.mark({ ...subject, onUnavailable: "refuse" }).catch(refusal);
  },
  "mark, then forget": async (guard, subject) => {
    await guard.mark(subject).catch(refusal);
    await guard.forget(subject);
  },
  ...Object.fromEntries(
    VALUES.flatMap((value, index) => [
      [`done with value ${index}`, resolving({ status: "done", value })],
      [
        `mark with value ${index}`,
        (guard: Guard, subject: Subject) => guard.mark({ ...subject, value }).catch(refusal),
      ],
    ]),
  ),
  ...Object.fromEntries(
    ERRORS.map((error, index) => [`failed with error ${index}`, resolving({ status: "failed", error })]),
  ),
};

/** Those that reach the framework of an adapter, and one of each of the others: the rest is the exchange's, and alike for all. */
export const FRAMEWORK_DECISIONS: typeof DECISIONS = Object.fromEntries(
  Object.entries(DECISIONS).filter(([name]) =>
    /^(nothing|reopen|forget|done with value [07])$|^failed/.test(name),
  ),
);

/** A mark is refused where the record is pending or held. */
function refusal(error: unknown): void {
  if (!isNevertwiceError(error)) throw error;
}

type SetUp = (guard: Guard, subject: Subject, deliver: () => Promise<unknown>) => Promise<unknown>;

/** What was there before the operator came. The answer, if there is one, ends what is still under way. */
export const STATES: Readonly<Record<string, SetUp>> = {
  absent: async () => {},
  pending: async (guard, subject) => {
    const claim = await guard.claim(subject);
    return claim.status === "claimed" ? claim : undefined;
  },
  lapsed: (guard, subject) => lapse(guard, subject, "takeover"),
  held: (guard, subject) => lapse(guard, subject, "hold"),
  released: async (guard, subject) => {
    const claim = await guard.claim(subject);
    if (claim.status === "claimed") await claim.release();
  },
  "done by the door": async (_guard, _subject, deliver) => void (await deliver()),
  "done by another door": (guard, subject) => guard.run(subject, () => 42).then(() => {}),
  "done by another door, for another request": (guard, subject) =>
    guard.run({ ...subject, fingerprint: "another" }, () => ({ other: true })).then(() => {}),
  "failed in another door": (guard, subject) =>
    guard
      .run({ ...subject, onFailure: "remember" }, () => Promise.reject(new Error("decided")))
      .catch(() => {}),
};

async function lapse(guard: Guard, subject: Subject, onLapsed: "takeover" | "hold"): Promise<void> {
  const claim = await guard.claim({ ...subject, onLapsed, onFailure: "unknown" });
  if (claim.status === "claimed") await claim.fail(new Error("cut off"));
}

/** The request is delivered so often after a decision. */
const DELIVERIES = 2;

interface TrialOptions {
  readonly store?: Store;
  readonly decisions?: typeof DECISIONS;
}

/** All that is wrong with how a door takes decisions, each with the state, the decision and the answer. */
export async function decisionTrial(
  open: OpenDoor,
  { store = memoryStore(), decisions = DECISIONS }: TrialOptions = {},
): Promise<{ readonly wrong: readonly string[]; readonly asked: number }> {
  const guard = createGuard({ store, namespace: "trial", purgeEveryMs: 0, waitMs: 0, drainMs: 0 });
  const ran = new Map<string, number>();
  const door = await open(guard, (key) => void ran.set(key, (ran.get(key) ?? 0) + 1));
  const wrong: string[] = [];
  let asked = 0;
  for (const [state, setUp] of Object.entries(STATES)) {
    for (const [decision, decide] of Object.entries(decisions)) {
      const key = `k${asked++}`;
      const referee = refereeOf(guard, door, key, () => ran.get(key) ?? 0);
      const held = await setUp(guard, door.subject(key), () => door.deliver(key));
      await decide(guard, door.subject(key));
      const found: (string | undefined)[] = [];
      for (let i = 0; i < DELIVERIES; i++) found.push(await referee.deliver());
      await (held as { release(): Promise<void> } | undefined)?.release();
      found.push(await referee.wayOut());
      for (const problem of found) if (problem !== undefined) wrong.push(`${state}, ${decision}: ${problem}`);
    }
  }
  await door.stop?.();
  await guard.close();
  return { wrong, asked };
}

function refereeOf(guard: Guard, door: Door, key: string, runs: () => number) {
  /** What is wrong with how one more delivery was answered, if anything. */
  async function deliver(isLast = false): Promise<string | undefined> {
    const before = await guard.read(door.subject(key));
    const mayRun =
      before === undefined || before.state === "released" || (before.state === "lapsed" && !before.held);
    const count = runs();
    let status: string;
    try {
      status = await door.deliver(key);
    } catch (error) {
      const isRecorded = before?.outcome?.kind === "thrown";
      const isOurs = isNevertwiceError(error);
      const isFaithful =
        isRecorded && (error instanceof FrameworkError || isSame(error, before.outcome.error));
      if (isLast && isOurs) return `there is no way out: ${error.message}`;
      status = isOurs || isFaithful ? "refused" : `threw ${String(error)}`;
      if (!isOurs && !isFaithful) return status;
    }
    const allowed = mayRun ? 1 : 0;
    if (runs() - count > allowed)
      return `the effect ran ${runs() - count} times, of a record that is ${before?.state}`;
    if (before?.state === "completed" && /^(later|pending|unknown)/.test(status))
      return `what is decided comes back: ${status}`;
    const isStuck = /pending|later|unknown|conflict|422|409/.test(status);
    return isLast && isStuck ? `there is no way out: ${status}` : undefined;
  }

  /** What an operator can do about any record: after it, the request is answered. */
  async function wayOut(): Promise<string | undefined> {
    const subject = door.subject(key);
    const record = await guard.read(subject);
    if (record?.state === "completed") await guard.reopen(subject);
    else if (record?.state === "lapsed")
      await guard.resolve({ ...subject, fence: record.fence }, { status: "not-done" });
    return deliver(true);
  }

  return { deliver, wayOut };
}

/** A recorded error comes back as a copy. */
function isSame(error: unknown, recorded: unknown): boolean {
  return String(error) === String(recorded) || JSON.stringify(error) === JSON.stringify(recorded);
}
