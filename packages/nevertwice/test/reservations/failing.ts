/** A store of reservations with failures that are planned: what a database, its disk and its network do now and then. */
import { MayBeWritten, NotWritten, type ReservationStore } from "../../src/reservations/ledger.ts";

/**
 * `refused`: rolled back, and the store says so. `reply-lost`: committed, and the reply is lost. `never-sent`: not
 * committed, and nobody knows.
 */
export type Failure = "refused" | "reply-lost" | "never-sent";

export interface FailingStore extends ReservationStore {
  /** Of the transactions from now on, one after another; those after them work. */
  plan(...failures: readonly Failure[]): void;
  /** Nothing is answered until the answer is called. */
  stall(): () => void;
  readonly transactions: number;
}

export function failing(store: ReservationStore): FailingStore {
  const planned: Failure[] = [];
  let gate = Promise.resolve();
  let transactions = 0;
  return {
    ...store,
    get transactions() {
      return transactions;
    },
    plan: (...failures) => void planned.push(...failures),
    stall() {
      let open = () => {};
      gate = new Promise((resolve) => {
        open = resolve;
      });
      return open;
    },
    async transact(group, rules) {
      transactions++;
      const failure = planned.shift();
      await gate;
      if (failure === "refused") throw new NotWritten(new Error("the disk is full"));
      if (failure === "never-sent")
        throw new MayBeWritten(
          group.map(({ newId }) => ({ ok: true, id: newId })),
          new Error("the connection was lost"),
        );
      const answers = await store.transact(group, rules);
      if (failure === "reply-lost") throw new MayBeWritten(answers, new Error("the connection was lost"));
      return answers;
    },
  };
}
