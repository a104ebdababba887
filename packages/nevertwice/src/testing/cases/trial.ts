/** One run of one case: the store under test, a new key, and control over time. */
import type { Parts, Store } from "../../core/store.ts";
import { type CaseWork, newParts, workOn } from "./work.ts";

export interface Trial {
  readonly store: Store;
  readonly work: CaseWork;
  /** Another key; parts that are not given have the defaults of the cases. */
  another(parts?: Partial<Parts>): CaseWork;
  /** A key by its id. */
  identified(id: string): CaseWork;
  /** Lets exactly `ms` pass, or slightly more where the case has to wait in real time. */
  pass(ms: number): Promise<void>;
  /** Lets clearly more than `ms` pass, for cases about the time after a deadline. */
  outlast(ms: number): Promise<void>;
  /** Moves the clock if it can be moved, and resolves to by how much: 0 where the case has to do with less. */
  skipAhead(ms: number): Promise<number>;
  /** Moves the clock back. Only for cases that need `clock`. */
  turnBack(ms: number): Promise<void>;
}

export interface GuaranteeCase {
  /** What goes wrong for users of a store that breaks it. */
  readonly why: string;
  readonly needs?: readonly StoreNeed[];
  check(trial: Trial): Promise<void>;
}

/** The cases of one guarantee. A name is a sentence about behaviour. */
export type GuaranteeCases = Readonly<Record<string, GuaranteeCase>>;

/** What some stores lack, and the reason for skipping a case that needs it. */
const NEEDS = {
  watch: "The store has no `watch`: its waiters poll.",
  list: "The store has no `list`.",
  order: "The store's `listOrder` is not newest-first: its lists have no order.",
  undecided: "The store has no `undecided`.",
  namespaces: "The store has no `namespaces`.",
  keepStep: "The store has no `keepStep`: work on it has no steps.",
  forget: "The store has no `forget`.",
  history: "The store does not say `keepsHistory`: its records forget earlier attempts.",
  purge: "The store says `collectsItself`: its database removes what is past its time.",
  clock: "The store's clock cannot be turned back from here: no `advance` was given.",
} as const;

export type StoreNeed = keyof typeof NEEDS;

type Advance = (ms: number) => void | Promise<void>;

/** The reason why this store cannot run a case with these needs; undefined if it can. */
export function missing(needs: readonly StoreNeed[], store: Store, advance?: Advance): string | undefined {
  const need = needs.find((each) => {
    if (each === "clock") return advance === undefined;
    if (each === "order") return store.listOrder !== "newest-first";
    if (each === "history") return store.keepsHistory !== true;
    if (each === "purge") return store.collectsItself === true;
    return store[each] === undefined;
  });
  return need && NEEDS[need];
}

/** How much further than `ms` `outlast` moves a clock: more than any store's delay, less than a lease. */
const BEYOND_MS = 10_000;
/** Timers may fire a little early, and the store's clock may be coarser than ours. */
export const ROUNDING_MS = 15;

export function startTrial(store: Store, advance?: Advance): Trial {
  const move = async (ms: number): Promise<void> => advance?.(ms);
  return {
    store,
    work: workOn(store),
    another: (parts) => workOn(store, newParts(parts)),
    identified: (id) => workOn(store, newParts(), id),
    pass: (ms) => (advance === undefined ? sleep(ms + ROUNDING_MS) : move(ms)),
    outlast: (ms) => (advance === undefined ? sleep(ms + ROUNDING_MS) : move(ms + BEYOND_MS)),
    async skipAhead(ms) {
      await move(ms);
      return advance === undefined ? 0 : ms;
    },
    turnBack: (ms) => move(-ms),
  };
}

/** Waits in real time, for what the store's clock does not cause. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
