/**
 * The steps of the SQLite store in transactions of the application, on the connection that both share. Everything is
 * synchronous, so no other call of the store runs on the connection in between.
 */
import { hasStep } from "../../core/kept-steps.ts";
import type { ClaimAnswer } from "../../core/store.ts";
import type { ConnectionTransactions, TransactionWrite } from "../../core/store-transactions.ts";
import type { CallRunner } from "./call-runner.ts";
import { isFailed, type StoreCall, toClaimCall, toResult } from "./calls.ts";
import type { SqliteDatabase } from "./client.ts";

/** Gone if the work has ended the transaction itself. */
const SAVEPOINT = "nevertwice_transaction";

export function createTransactions(
  database: SqliteDatabase,
  openRunner: () => CallRunner,
  wake: (ids: readonly string[]) => void,
): ConnectionTransactions {
  /** Runs one step in the transaction that is open. */
  function run<Value>(call: StoreCall): Value {
    const { answers, outcomes } = openRunner().runInside([call]);
    const answer = answers[0] as Exclude<(typeof answers)[number], undefined>;
    if (isFailed(answer)) throw answer[1];
    return toResult(answer, outcomes) as Value;
  }

  function isStillInside(): boolean {
    try {
      database.exec(`RELEASE ${SAVEPOINT}`);
      return true;
    } catch {
      return false;
    }
  }

  return {
    kind: "connection",
    isConnection: (given) => given === database,

    transact({ id, token }, work) {
      const { table } = openRunner();
      table.beginWriting();
      let isOpen = true;
      try {
        const kept = table.find(id)?.kept;
        if (kept?.token !== token || kept.state !== "pending" || kept.spent) return "none";
        database.exec(`SAVEPOINT ${SAVEPOINT}`);
        const end = workInside(work);
        isOpen = isStillInside();
        if (!isOpen) return "left";
        if ("thrown" in end) throw end.thrown;
        const isStep = "step" in end.value;
        if (isStep && hasStep(kept, end.value.step)) return "none";
        if (!run<boolean>(toCall(id, token, end.value))) return "none";
        table.commit();
        isOpen = false;
        if (!isStep) wake([id]);
        return "locked";
      } finally {
        if (isOpen) table.rollback();
      }
    },

    claim: (request) => run<ClaimAnswer>(toClaimCall(request)),
    complete: ({ id, token, outcome, retentionMs }) => run(["complete", id, token, outcome, retentionMs]),
  };
}

function toCall(id: string, token: string, write: TransactionWrite): StoreCall {
  return "step" in write
    ? ["keep-step", id, token, write.step, write.outcome]
    : ["complete", id, token, write.outcome, write.retentionMs];
}

function workInside<T>(work: () => T): { readonly value: T } | { readonly thrown: unknown } {
  try {
    return { value: work() };
  } catch (thrown) {
    return { thrown };
  }
}
