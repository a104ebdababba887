/** The steps of the Postgres store in transactions of the application. */
import { isNevertwiceError } from "../../core/errors.ts";
import { stepLine, stepStart } from "../../core/kept-steps.ts";
import type {
  CommitFailure,
  CompletionAnswer,
  LastRun,
  PreparableStatement,
  RunText,
  SettledState,
  StatementTransactions,
} from "../../core/store-transactions.ts";
import { readyInTime } from "../ready-in-time.ts";
import { cancelledAfter, microseconds, type PostgresRow, type RunStatement } from "./client.ts";
import { errorState, isConnectionOver } from "./errors.ts";
import { CHECK_MS } from "./schema.ts";
import { claimStep } from "./steps.ts";
import {
  askSameSql,
  claimSql,
  END_CONNECTION,
  type NameStatement,
  refusalIn,
  settleSql,
  settleStepSql,
  transactionStatements,
} from "./transaction-sql.ts";

export interface PostgresTransactionsOptions {
  readonly clients: readonly unknown[];
  /** The table of records, as the store's own statements name it. */
  readonly records: string;
  /** Whether a driver may prepare the statements. */
  readonly isPrepared: boolean;
  /** Whether the tables can keep steps; `ready` looks first if that is not known yet. */
  readonly isMigrated: () => boolean;
  ready(): Promise<unknown>;
  /** Runs a statement on the store's own client. */
  readonly run: RunStatement;
  readonly nameStatement: NameStatement;
  announce(id: string): void;
}

export function createTransactions({
  clients,
  records,
  isPrepared,
  isMigrated,
  ready,
  run: runOnStore,
  nameStatement,
  announce,
}: PostgresTransactionsOptions): StatementTransactions {
  const statement = (purpose: string, text: string) => ({ name: nameStatement(purpose, text), text });
  const migrated = transactionStatements(records, { isMigrated: true, isPrepared }, nameStatement);
  const unmigrated = transactionStatements(records, { isMigrated: false, isPrepared }, nameStatement);
  const statements = () => (isMigrated() ? migrated : unmigrated);
  const settleStatement = statement("settle", settleSql(records));
  const settleStepStatement = statement("settle_step", settleStepSql(records));

  return {
    kind: "statements",
    clients,
    announce,

    async lock(run, { id, token, transactionMs }) {
      try {
        const mark = await run(statements().lock(id, token, String(transactionMs)));
        return mark === undefined ? { status: "none" } : { status: "locked", mark };
      } catch (error) {
        if (MISSING.includes(String(errorState(error)))) return { status: "none" };
        throw error;
      }
    },

    async claim(run, request) {
      await readyInTime(ready());
      const text = await run(claimSql(records, claimStep.toParameters([request]), isMigrated()));
      const rows = JSON.parse(text ?? "null") as readonly PostgresRow[] | null;
      const [answer] = claimStep.toAnswers([request], rows ?? []);
      if (isNevertwiceError(answer)) throw answer;
      // The record changed during the statement, or another transaction has locked it.
      return answer ?? { status: "pending", leaseLeftMs: TAKEN_MS };
    },

    complete(last, { id, token, outcome, retentionMs }, mark) {
      const { complete, completeOrFail } = statements();
      const write = last.commits ? completeOrFail : complete;
      const retention = String(microseconds(retentionMs));
      return writeLast(last, write(id, token, outcome, retention, mark ?? ""), mark);
    },

    keepStep(last, { id, token, name, outcome }, mark) {
      const { keepStep, keepStepOrFail } = statements();
      const write = last.commits ? keepStepOrFail : keepStep;
      const { start, end } = stepLine({ name, outcome });
      return writeLast(last, write(id, token, start, end, mark), mark);
    },

    isSame,
    endConnection: (run: RunText) => run(END_CONNECTION),

    async settle({ id, token, waitMs, step }): Promise<SettledState> {
      try {
        const owner = [id, token, String(waitMs)];
        const isCancelled = cancelledAfter(waitMs + CHECK_MS);
        const [row] =
          step === undefined
            ? await runOnStore(settleStatement, owner, isCancelled)
            : await runOnStore(settleStepStatement, [...owner, stepStart(step)], isCancelled);
        const state = row?.[0];
        return state === "completed" || state === "pending" ? state : "lost";
      } catch (error) {
        if (errorState(error) === LOCK_TIMEOUT) return "locked";
        throw error;
      }
    },

    judgeFailure,
  };
}

/** Without a row, the statement has written nothing; one that commits fails instead. */
async function writeLast(
  { run }: LastRun,
  statement: PreparableStatement,
  mark: string | undefined,
): Promise<CompletionAnswer> {
  try {
    if ((await run(statement)) !== undefined) return "completed";
  } catch (error) {
    const refusal = refusalIn(error);
    if (refusal === undefined) throw error;
    return refusal;
  }
  return mark === undefined || (await isSame(run, mark)) ? "lost" : "left";
}

async function isSame(run: RunText, mark: string): Promise<boolean> {
  return (await run(askSameSql(mark))) === "true";
}

const TAKEN_MS = 1_000;
/** The table or its schema does not exist on the connection of the application. */
const MISSING = ["42P01", "3F000"];
const LOCK_TIMEOUT = "55P03";
/** A conflict with another transaction; or a prepared statement is gone, because the work or a proxy removed it. */
const CONFLICTS = ["40001", "40P01", "26000"];
/** The server ended the connection, or does not know itself: COMMIT may have been carried out. */
const AMBIGUOUS = /^(08|57P|40003)/;

/** An error that the server answered to COMMIT means that it rolled back, unless it ended the connection as well. */
function judgeFailure(error: unknown): CommitFailure {
  const state = errorState(error);
  if (state === undefined) return "ambiguous";
  if (CONFLICTS.includes(state)) return "repeat";
  return AMBIGUOUS.test(state) || isConnectionOver(error) ? "ambiguous" : "rolled-back";
}
