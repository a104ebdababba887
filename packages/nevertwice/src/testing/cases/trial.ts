/** One run of one case: the store it asks, work of its own, and time that passes. */
import type { Parts, Store } from "../../core/store.ts";
import { partsOf, type Work, workOn } from "./work.ts";

export interface Trial {
  readonly store: Store;
  readonly work: Work;
  /** Another key; parts that are not given are the cases' own. */
  another(parts?: Partial<Parts>): Work;
  /** A key by its id. */
  identified(id: string): Work;
  /** Lets exactly `ms` pass, or hardly more where it is really waited for. */
  pass(ms: number): Promise<void>;
  /** Lets clearly more than `ms` pass, for cases that ask what comes after a deadline and not where it lies. */
  outlast(ms: number): Promise<void>;
  /** Moves a clock that can be moved and answers by how much; the others are asked the weaker question, at once. */
  skipAhead(ms: number): Promise<number>;
  /** Moves the clock back. Only for cases that need `clock`. */
  turnBack(ms: number): Promise<void>;
}

export interface Case {
  /** What goes wrong for people where it does not hold. */
  readonly why: string;
  readonly needs?: readonly Need[];
  check(trial: Trial): Promise<void>;
}

/** The cases of one guarantee. A name is a sentence about behaviour. */
export type Cases = Readonly<Record<string, Case>>;

/** What not every store has, and what is said of a case that cannot be asked without it. */
const NEEDS = {
  watch: "The store has no `watch`: its waiters poll.",
  list: "The store has no `list`.",
  forget: "The store has no `forget`.",
  purge: "The store says `collectsItself`: its database removes what is past its time.",
  clock: "The store's clock cannot be turned back from here: no `advance` was given.",
} as const;

export type Need = keyof typeof NEEDS;

type Advance = (ms: number) => void | Promise<void>;

/** Why a case with these needs cannot be asked of this store, if so. */
export function missing(needs: readonly Need[], store: Store, advance?: Advance): string | undefined {
  const need = needs.find((each) => {
    if (each === "clock") return advance === undefined;
    if (each === "purge") return store.collectsItself === true;
    return store[each] === undefined;
  });
  return need && NEEDS[need];
}

/** How far `outlast` goes beyond on a clock that can be moved: more than any store is late by, less than a lease. */
const BEYOND_MS = 10_000;
/** Timers may fire a little early, and the store's clock may be coarser than ours. */
const ROUNDING_MS = 15;

export function startTrial(store: Store, advance?: Advance): Trial {
  const move = async (ms: number): Promise<void> => advance?.(ms);
  return {
    store,
    work: workOn(store),
    another: (parts) => workOn(store, partsOf(parts)),
    identified: (id) => workOn(store, partsOf(), id),
    pass: (ms) => (advance === undefined ? sleep(ms + ROUNDING_MS) : move(ms)),
    outlast: (ms) => (advance === undefined ? sleep(ms + ROUNDING_MS) : move(ms + BEYOND_MS)),
    async skipAhead(ms) {
      await move(ms);
      return advance === undefined ? 0 : ms;
    },
    turnBack: (ms) => move(-ms),
  };
}

/** For what no clock of the store brings about. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
