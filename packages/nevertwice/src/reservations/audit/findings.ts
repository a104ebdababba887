/** The findings of an audit: how many records each invariant was checked on, and which records break it. */
import { INVARIANT_IDS, INVARIANTS, type InvariantId, MODULES, moduleFor, RESTS_ON } from "./invariants.ts";

/** A record that breaks an invariant. */
export interface Offender {
  /** `commitment:<id>`, `resource:<name>`, `key:<id>`, `event:<…>` or `checkpoint:<id>`. */
  readonly subject: string;
  /** What is wrong with it, in a sentence. */
  readonly problem: string;
}

/** The result of one invariant. */
export interface InvariantResult {
  /** The letter of the module and a number: `C3`. */
  readonly id: InvariantId;
  /** The module of the invariant. */
  readonly module: string;
  /** Its number in the module. */
  readonly number: number;
  /** What the invariant says, in short. */
  readonly name: string;
  /** Whether every record that was looked at has it. */
  readonly ok: boolean;
  /** How many records it was checked on. */
  readonly looked: number;
  /** How many times it did not hold; `offenders` lists the first ones. */
  readonly broken: number;
  /** The records that break it, up to `maxOffenders`. */
  readonly offenders: readonly Offender[];
  /** Broken invariants that this one depends on. */
  readonly restsOn: readonly InvariantId[];
  /** How far stored records can prove it. */
  readonly shows: string;
}

/** The checks of one record. They count only once they are added to the findings, since the record may be rechecked. */
export interface Judgement {
  /** Counts a check of an invariant, and notes the problem if it does not hold. */
  check(id: InvariantId, subject: string, holds: boolean, problem: string | (() => string)): void;
  /** Counts `count` records that keep the invariant. */
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
    check(id, subject, holds, problem) {
      looked.set(id, (looked.get(id) ?? 0) + 1);
      if (!holds) problems.push({ id, subject, problem: typeof problem === "string" ? problem : problem() });
    },
  };
}

export interface Findings {
  add(judgement: Judgement): void;
  /** Notes a record that changed each time it was read, so that it could not be judged. */
  leaveOpen(subject: string): void;
  results(): readonly InvariantResult[];
  readonly open: { count: number; readonly subjects: string[] };
}

export function createFindings(maxOffenders: number): Findings {
  const tallies = new Map(
    INVARIANT_IDS.map((id) => [id, { looked: 0, broken: 0, offenders: [] as Offender[] }]),
  );
  const tallyFor = (id: InvariantId) =>
    tallies.get(id) as { looked: number; broken: number; offenders: Offender[] };
  const open = { count: 0, subjects: [] as string[] };
  return {
    open,
    add({ looked, problems }) {
      for (const [id, count] of looked) tallyFor(id).looked += count;
      for (const { id, subject, problem } of problems) {
        const tally = tallyFor(id);
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
        const tally = tallyFor(id);
        const restsOn = INVARIANT_IDS.filter(
          (other) => moduleFor(other) === RESTS_ON[id] && tallyFor(other).broken > 0,
        );
        return {
          id,
          module: MODULES[moduleFor(id)],
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
