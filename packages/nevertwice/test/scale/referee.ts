/**
 * Checks the notes of several processes that contended for a few keys. All processes read the same monotonic clock, so
 * their notes can be compared. The referee checks that no two processes owned a key at once, and that every answer was right.
 *
 *   ask ──── granted by the store ──── own ──────── end ──── applied ──── told
 *   └ sentAt                           └ answeredAt └ sentAt              └ answeredAt
 *
 * Between `own` and `end` the process was sure of its claim, unless its lease ended before. The store granted the next
 * claim after `end` was sent, or after a lease that began when `ask` (or the last renewal) was sent.
 */

/** One line of a process's notes. Times are microseconds of the monotonic clock. */
export type Note =
  | readonly [kind: "ask", attempt: number, key: string, sentAt: number]
  | readonly [kind: "no", attempt: number, status: string]
  | readonly [kind: "own", attempt: number, fence: number, tookOver: boolean, answeredAt: number]
  | readonly [kind: "try", attempt: number, step: Step, sentAt: number]
  | readonly [kind: "told", attempt: number, answer: boolean, answeredAt: number]
  | readonly [kind: "error", attempt: number, message: string];

type Step = "renew" | "complete" | "abandon";

export interface Verdict {
  readonly problems: readonly string[];
  readonly claims: number;
  readonly owners: number;
  readonly takeovers: number;
  /** Steps that were refused because the owner had been overtaken. */
  readonly refused: number;
  readonly answers: Readonly<Record<string, number>>;
}

interface Told {
  readonly step: Step;
  readonly sentAt: number;
  answer: boolean | undefined;
  answeredAt: number;
}

interface Tenure {
  readonly key: string;
  readonly by: string;
  readonly askedAt: number;
  answeredAt: number;
  fence: number;
  tookOver: boolean;
  readonly steps: Told[];
}

/** The store's clock may count whole milliseconds, and so end a lease up to one of them early. */
const ROUNDING_US = 1_000;

/** `processes`: the notes of each process, in the order in which they were written. */
export function judge(processes: readonly (readonly Note[])[], leaseMs: number): Verdict {
  const answers: Record<string, number> = {};
  const problems: string[] = [];
  const owned = new Map<string, Tenure[]>();
  /** A claim whose process died before it noted the answer. The claim may have been granted. */
  const unanswered = new Map<string, number[]>();
  let claims = 0;
  for (const [index, notes] of processes.entries()) {
    const asked = new Map<number, Tenure>();
    for (const note of notes) {
      const [kind, attempt] = note;
      const tenure = asked.get(attempt);
      if (kind === "ask") {
        claims++;
        asked.set(attempt, begun(note, `process ${index}, attempt ${attempt}`));
      } else if (tenure === undefined) problems.push(`process ${index} noted ${kind} for no attempt`);
      else if (kind === "no") {
        answers[note[2]] = (answers[note[2]] ?? 0) + 1;
        asked.delete(attempt);
      } else if (kind === "error") {
        problems.push(`${tenure.by} on ${tenure.key} failed: ${note[2]}`);
        asked.delete(attempt);
      } else if (kind === "own") {
        Object.assign(tenure, { fence: note[2], tookOver: note[3], answeredAt: note[4] });
        addTo(owned, tenure.key, tenure);
      } else if (kind === "try")
        tenure.steps.push({
          step: note[2],
          sentAt: note[3],
          answer: undefined,
          answeredAt: Number.POSITIVE_INFINITY,
        });
      else Object.assign(tenure.steps.at(-1) ?? {}, { answer: note[2], answeredAt: note[3] });
    }
    for (const { key, fence, askedAt } of asked.values()) if (fence === 0) addTo(unanswered, key, askedAt);
  }
  for (const [key, tenures] of owned)
    problems.push(...keyProblems(tenures, unanswered.get(key) ?? [], leaseMs * 1_000));
  const all = [...owned.values()].flat();
  const refused = all.flatMap(({ steps }) => steps.filter(({ answer }) => answer === false)).length;
  const takeovers = all.filter(({ tookOver }) => tookOver).length;
  answers.new = all.length;
  return { problems, claims, owners: all.length, takeovers, refused, answers };
}

function addTo<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

function begun([, , key, askedAt]: Note & { 0: "ask" }, by: string): Tenure {
  return { key, by, askedAt, answeredAt: Number.POSITIVE_INFINITY, fence: 0, tookOver: false, steps: [] };
}

/** The tenures of one key, from the last to the first. `unanswered`: when claims were sent whose answers no process noted. */
function keyProblems(tenures: readonly Tenure[], unanswered: readonly number[], leaseUs: number): string[] {
  const problems: string[] = [];
  const lastFirst = [...tenures].sort((a, b) => b.fence - a.fence);
  let after: Tenure | undefined;
  // When the first successor sent its claim, and when a successor first learned that it owned the key.
  const overtaken = { mayBeFrom: Math.min(...unanswered), isFrom: Number.POSITIVE_INFINITY };
  for (const tenure of lastFirst) {
    if (after !== undefined) problems.push(...successionProblems(tenure, after, unanswered, leaseUs));
    problems.push(...stepProblems(tenure, overtaken));
    overtaken.mayBeFrom = Math.min(overtaken.mayBeFrom, tenure.askedAt);
    overtaken.isFrom = Math.min(overtaken.isFrom, tenure.answeredAt);
    after = tenure;
  }
  return problems;
}

function successionProblems(
  before: Tenure,
  after: Tenure,
  unanswered: readonly number[],
  leaseUs: number,
): string[] {
  const { key } = before;
  if (before.fence === after.fence)
    return [`${before.by} and ${after.by} owned ${key} with the same fence ${before.fence}`];
  const earlyUs = sureUntil(before, leaseUs) - after.answeredAt;
  if (earlyUs > 0) return [`${after.by} owned ${key} ${earlyUs} µs before ${before.by} was done with it`];
  // Between the two there may have been an owner that died before it noted its claim.
  if (unanswered.some((askedAt) => askedAt < after.answeredAt)) return [];
  const last = before.steps.findLast(({ step }) => step !== "renew");
  if (last !== undefined && last.answer === undefined) return [];
  const wasLeft = last?.answer !== true;
  if (after.tookOver === wasLeft) return [];
  return [
    `${after.by} got ${key} ${after.tookOver ? "as" : "not as"} a takeover from ${before.by}, which ${wasLeft ? "left it" : "gave it up"}`,
  ];
}

/** Until then no other process can have been granted the key: the owner gave it up, or its lease ended. */
function sureUntil({ askedAt, steps }: Tenure, leaseUs: number): number {
  const renewedAt = steps.findLast(({ step, answer }) => step === "renew" && answer)?.sentAt ?? askedAt;
  const gaveUpAt = steps.find(({ step }) => step !== "renew")?.sentAt ?? Number.POSITIVE_INFINITY;
  return Math.min(gaveUpAt, renewedAt + leaseUs - ROUNDING_US);
}

/** A step of an owner must be accepted, unless the owner was overtaken. */
function stepProblems(
  { key, by, steps }: Tenure,
  { mayBeFrom, isFrom }: { readonly mayBeFrom: number; readonly isFrom: number },
): string[] {
  return steps.flatMap(({ step, sentAt, answer, answeredAt }) => {
    if (answer === true && isFrom < sentAt)
      return [`${by} was overtaken on ${key}, and its ${step} was accepted`];
    if (answer === false && mayBeFrom >= answeredAt)
      return [`${by} owned ${key} alone, and its ${step} was refused`];
    return [];
  });
}
