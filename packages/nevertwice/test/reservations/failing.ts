/** A reservation store with planned failures, as a database, its disk or its network may cause them. */
import { MayBeWritten, NotWritten, type ReservationStore } from "../../src/reservations/store.ts";

/**
 * `refused`: rolled back, with an error. `reply-lost`: committed, but the reply is lost. `never-sent`: not committed, and
 * the store cannot tell.
 */
export type Failure = "refused" | "reply-lost" | "never-sent";

export interface FailingStore extends ReservationStore {
  /** Fails the next transactions in this way, one after another; later ones work. */
  plan(...failures: readonly Failure[]): void;
  /** Stops all answers until the returned function is called. */
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
