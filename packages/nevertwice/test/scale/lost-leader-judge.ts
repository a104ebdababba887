/** Judges a trial in which the store loses its leader: by the entries of the ledger, what was acknowledged, and what is left. */
import type { Store } from "../../src/core/store.ts";
import type { Try } from "./workers/ledger.js";

/** One line of a process's notes. Times are microseconds of the monotonic clock. */
export type ClaimantNote =
  | readonly [kind: "step", at: number, ms: number, tries: number]
  | readonly [kind: "done", key: string, fence: number, outcome: string, at: number]
  | readonly [kind: "refused", key: string, step: string, fence: number];

export interface LostLeaderVerdict {
  /** Calls that the store answered. */
  readonly steps: number;
  /** Of these, calls that were answered only after they had been repeated. */
  readonly repeated: number;
  readonly outcomes: number;
  /** Acknowledged outcomes that the store no longer has. */
  readonly lostOutcomes: readonly string[];
  /** Claims that were granted, and then refused to their owner although their lease ran. */
  readonly lostClaims: readonly string[];
  /**
   * Claims whose owner gave them up with a call that was repeated: the first try had freed the key, and the repetition met
   * the next owner, so that its answer was false.
   */
  readonly freedBefore: number;
  /** Keys with two owners at once, or with an owner after their outcome was acknowledged. */
  readonly duplicateWinners: readonly string[];
  /** Claims whose fence was not higher than that of the claim before them. */
  readonly fencesThatFell: readonly string[];
  readonly owners: number;
}

export async function judgeLostLeader(
  store: Pick<Store, "read">,
  notes: readonly ClaimantNote[],
  tries: readonly Try[],
): Promise<LostLeaderVerdict> {
  const steps = notes.filter(([kind]) => kind === "step") as Extract<
    ClaimantNote,
    readonly ["step", ...unknown[]]
  >[];
  const done = notes.filter(([kind]) => kind === "done") as Extract<
    ClaimantNote,
    readonly ["done", ...unknown[]]
  >[];
  const refused = notes.flatMap((note) => (note[0] === "refused" ? [note] : []));
  const highest = new Map<string, number>();
  for (const { message, fence } of tries) {
    const key = message.split(" ")[1] ?? "";
    highest.set(key, Math.max(fence, highest.get(key) ?? 0));
  }
  // Whether the next owner came too early is judged by the ledger.
  const isFreedBefore = ([, key, step, fence]: (typeof refused)[number]) =>
    step === "abandon" && (highest.get(key) ?? 0) > fence;
  const lostClaims = refused
    .filter((note) => !isFreedBefore(note))
    .map(([, key, step, fence]) => `${key}: ${step} of the owner with fence ${fence} was refused`);
  return {
    steps: steps.length,
    repeated: steps.filter(([, , , times]) => times > 1).length,
    outcomes: done.length,
    lostOutcomes: await outcomesLost(store, done),
    lostClaims,
    freedBefore: refused.filter(isFreedBefore).length,
    ...judgeLedger(done, tries),
  };
}

const READS_AT_ONCE = 50;

async function outcomesLost(
  store: Pick<Store, "read">,
  done: readonly (readonly ["done", string, number, string, number])[],
): Promise<string[]> {
  const lost: string[] = [];
  let next = 0;
  async function lane(): Promise<void> {
    for (let note = done[next++]; note !== undefined; note = done[next++]) {
      const [, key, fence, outcome] = note;
      const record = await store.read(key);
      if (record?.outcome !== outcome || record.fence !== fence)
        lost.push(
          `${key}: ${outcome} was acknowledged, and the record is ${record?.state ?? "absent"} with fence ${record?.fence}`,
        );
    }
  }
  await Promise.all(Array.from({ length: READS_AT_ONCE }, lane));
  return lost;
}

function judgeLedger(
  done: readonly (readonly ["done", string, number, string, number])[],
  tries: readonly Try[],
): Pick<LostLeaderVerdict, "duplicateWinners" | "fencesThatFell" | "owners"> {
  const doneAt = new Map(done.map(([, key, , , at]) => [key, at]));
  const duplicateWinners: string[] = [];
  const fencesThatFell: string[] = [];
  /** The fence of the owner that has entered and not left; and the last fence of each key. */
  const inside = new Map<string, number>();
  const lastFence = new Map<string, number>();
  let owners = 0;
  for (const { message, fence, at } of tries) {
    const [what, key = ""] = message.split(" ");
    if (what === "leave") {
      if (inside.get(key) === fence) inside.delete(key);
      continue;
    }
    owners++;
    const other = inside.get(key);
    if (other !== undefined)
      duplicateWinners.push(`${key}: fence ${fence} entered while fence ${other} was inside`);
    if (at > (doneAt.get(key) ?? Number.POSITIVE_INFINITY))
      duplicateWinners.push(`${key}: fence ${fence} entered after its outcome was acknowledged`);
    if (fence <= (lastFence.get(key) ?? 0))
      fencesThatFell.push(`${key}: fence ${fence} after ${lastFence.get(key)}`);
    inside.set(key, fence);
    lastFence.set(key, fence);
  }
  return { duplicateWinners, fencesThatFell, owners };
}

/** When a fault began and ended, in microseconds of the monotonic clock. */
export interface FaultWindow {
  readonly from: number;
  readonly to: number;
}

/** Throughput and latencies of the steps that were answered while a fault lasted, and of the others. */
export function stepSpeeds(
  notes: readonly ClaimantNote[],
  faults: readonly FaultWindow[],
  trial: FaultWindow,
): { readonly during: string; readonly after: string } {
  const isDuring = (at: number) => faults.some(({ from, to }) => at >= from && at < to);
  const steps = notes.flatMap((note) => (note[0] === "step" ? [{ at: note[1], ms: note[2] }] : []));
  const faultUs = faults.reduce((sum, { from, to }) => sum + to - from, 0);
  const tell = (some: typeof steps, us: number) => {
    const sorted = some.map(({ ms }) => ms).sort((a, b) => a - b);
    const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(0);
    return `${Math.round(some.length / (us / 1e6)).toLocaleString("en")} steps a second, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`;
  };
  return {
    during: tell(
      steps.filter(({ at }) => isDuring(at)),
      faultUs,
    ),
    after: tell(
      steps.filter(({ at }) => !isDuring(at)),
      trial.to - trial.from - faultUs,
    ),
  };
}
