/** What the auditor saw: how many records each invariant was asked of, and which ones do not keep it. */
import { INVARIANT_IDS, INVARIANTS, type InvariantId, MODULES, moduleOf, RESTS_ON } from "./invariants.ts";

export interface Offender {
  /** `commitment:`, `resource:`, `key:` or `checkpoint:` and its id. */
  readonly subject: string;
  readonly problem: string;
}

export interface InvariantResult {
  /** `C3`: the module's letter and the number in it. */
  readonly id: InvariantId;
  readonly module: string;
  readonly number: number;
  readonly name: string;
  readonly ok: boolean;
  /** How many records it was asked of. */
  readonly looked: number;
  /** How many times it did not hold; `offenders` are the first of them. */
  readonly broken: number;
  readonly offenders: readonly Offender[];
  /** Broken ones that this one rests on. */
  readonly restsOn: readonly InvariantId[];
  /** How far stored records can show it. */
  readonly shows: string;
}

/** What one reading of some records says. It counts only once it is added to the findings: it may be read anew. */
export interface Judgement {
  /** Asks an invariant of a record. */
  ask(id: InvariantId, subject: string, holds: boolean, problem: string | (() => string)): void;
  /** So many more records keep it. */
  pass(id: InvariantId, count: number): void;
  readonly looked: ReadonlyMap<InvariantId, number>;
  readonly problems: readonly (Offender & { readonly id: InvariantId })[];
}

export function openJudgement(): Judgement {
  const looked = new Map<InvariantId, number>();
  const problems: (Offender & { id: InvariantId })[] = [];
  return {
    looked,
    problems,
    pass: (id, count) => void looked.set(id, (looked.get(id) ?? 0) + count),
    ask(id, subject, holds, problem) {
      looked.set(id, (looked.get(id) ?? 0) + 1);
      if (!holds) problems.push({ id, subject, problem: typeof problem === "string" ? problem : problem() });
    },
  };
}

export interface Findings {
  add(judgement: Judgement): void;
  /** It changed each time it was read anew, so nothing is said of it. */
  leaveOpen(subject: string): void;
  results(): readonly InvariantResult[];
  readonly open: { count: number; readonly subjects: string[] };
}

export function createFindings(maxOffenders: number): Findings {
  const tallies = new Map(
    INVARIANT_IDS.map((id) => [id, { looked: 0, broken: 0, offenders: [] as Offender[] }]),
  );
  const tallyOf = (id: InvariantId) =>
    tallies.get(id) as { looked: number; broken: number; offenders: Offender[] };
  const open = { count: 0, subjects: [] as string[] };
  return {
    open,
    add({ looked, problems }) {
      for (const [id, count] of looked) tallyOf(id).looked += count;
      for (const { id, subject, problem } of problems) {
        const tally = tallyOf(id);
        tally.broken++;
        if (tally.offenders.length < maxOffenders) tally.offenders.push({ subject, problem });
      }
    },
    leaveOpen(subject) {
      open.count++;
      if (open.subjects.length < maxOffenders) open.subjects.push(subject);
    },
    results: () =>
      INVARIANT_IDS.map((id) => {
        const tally = tallyOf(id);
        const restsOn = INVARIANT_IDS.filter(
          (other) => moduleOf(other) === RESTS_ON[id] && tallyOf(other).broken > 0,
        );
        return {
          id,
          module: MODULES[moduleOf(id)],
          number: Number(id.slice(1)),
          name: INVARIANTS[id].name,
          ok: tally.broken === 0 && restsOn.length === 0,
          ...tally,
          restsOn,
          shows: INVARIANTS[id].shows,
        };
      }),
  };
}
