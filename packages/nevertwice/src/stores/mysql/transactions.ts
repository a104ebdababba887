/** The steps of the MySQL store in transactions of the application. */
import { setTimeout as sleep } from "node:timers/promises";
import { isNevertwiceError, NevertwiceError } from "../../core/errors.ts";
import { hasStep } from "../../core/kept-steps.ts";
import { isExpired } from "../../core/record.ts";
import type { CommitFailure, RunText, StatementTransactions } from "../../core/store-transactions.ts";
import { randomToken } from "../../core/token.ts";
import { createCompareAndSet, type RecordSnapshot } from "../compare-and-set.ts";
import { insertSql, updateSql } from "../mysql-sql.ts";
import { readyInTime } from "../ready-in-time.ts";
import * as sql from "./transaction-sql.ts";
import { toSnapshot } from "./values.ts";

export interface MysqlTransactionsOptions {
  /** The store's own client. */
  readonly client: unknown;
  /** Runs a statement on the store's own client. */
  query(text: string, signal: AbortSignal): Promise<unknown>;
  /** The same for a statement that writes. Answers how many rows it changed. */
  change(text: string, signal: AbortSignal): Promise<{ readonly affectedRows: number }>;
  read(id: string, signal: AbortSignal): Promise<RecordSnapshot>;
  /** Whether the tables can keep steps; `ready` looks first if that is not known yet. */
  isMigrated(): boolean;
  ready(): Promise<void>;
}

/** How often to look whether the lock of a record is free. */
const LOOK_MS = 50;

export function createTransactions({
  client,
  query,
  change,
  read,
  isMigrated,
  ready,
}: MysqlTransactionsOptions): StatementTransactions {
  let hasLimit = true;

  return {
    kind: "statements",
    clients: [client],
    announce() {},

    async lock(run, { id, token, transactionMs }) {
      if (hasLimit)
        await run(sql.limitSql(transactionMs)).catch((error: unknown) => {
          if (errnoOf(error) !== UNKNOWN_VARIABLE) throw error;
          hasLimit = false;
        });
      await run(sql.SAVEPOINT);
      const locked = await run(sql.lockSql({ id, token })).catch((error: unknown) => {
        if (errnoOf(error) === NO_TABLE) return undefined;
        throw error;
      });
      return locked === undefined ? { status: "none" } : { status: "locked", mark: "savepoint" };
    },

    async complete({ run }, { id, token, outcome, retentionMs }, mark) {
      if (mark !== undefined && !(await isSame(run))) return "left";
      const written = randomToken();
      await run(sql.completeSql({ id, token }, { outcome, retentionMs, mark: written }, isMigrated()));
      return (await run(sql.isMarkedSql(id, written))) === undefined ? "lost" : "completed";
    },

    async keepStep({ run }, { id, token, name, outcome }) {
      if (!(await isSame(run))) return "left";
      const mark = randomToken();
      await run(sql.keepStepSql({ id, token }, { name, outcome, mark }));
      return (await run(sql.isMarkedSql(id, mark))) === undefined ? "lost" : "completed";
    },

    isSame,
    restore: async (run) => void (hasLimit && (await run(sql.RESTORE_LIMIT))),
    endConnection: (run) => run(sql.END_CONNECTION),

    async settle({ id, token, waitMs, step }) {
      const signal = AbortSignal.timeout(waitMs);
      for (;;) {
        try {
          await query(sql.isFreeSql(id), signal);
          const { record, now } = await read(id, signal);
          if (record === undefined || record.token !== token || isExpired(record, now)) return "lost";
          if (record.state !== "pending")
            return step === undefined && record.state === "completed" ? "completed" : "lost";
          if (step !== undefined && hasStep(record, step)) return "completed";
          // On a Galera cluster the lock may be on another node, where COMMIT can still come. This write makes it fail.
          const { affectedRows } = await change(sql.touchPendingSql({ id, token }), signal);
          if (affectedRows > 0) return "pending";
        } catch (error) {
          if (!CONFLICTS_OF_SETTLE.includes(errnoOf(error)) || signal.aborted) return "locked";
          await sleep(LOOK_MS);
        }
      }
    },

    requireOpen: (run) => requireOpen(run, "use guard.transaction"),

    async claim(run, request) {
      await readyInTime(ready());
      return claimSteps(run, isMigrated()).claim(request);
    },

    judgeFailure,
  };
}

/** The savepoint is released, so this can be asked once. */
async function isSame(run: RunText): Promise<boolean> {
  try {
    await run(sql.RELEASE);
    return true;
  } catch (error) {
    if (errnoOf(error) === NO_SAVEPOINT) return false;
    throw error;
  }
}

/** The steps of the store on a connection of the application. A lost race, a deadlock too, is the caller's to repeat. */
function claimSteps(run: RunText, isMigrated: boolean) {
  let isRaced = false;
  return createCompareAndSet({
    async read(id) {
      const text = await run(sql.readInsideSql(id, { isLocking: isRaced, isMigrated }));
      return toSnapshot(sql.toRow(text ?? (await run(sql.CLOCK_SQL)) ?? ""));
    },
    async write(id, found, record) {
      if (record === undefined) throw new Error("a claim removes no record");
      const mark = randomToken();
      const next = { mark, isMigrated };
      try {
        const isFirst = found.record === undefined;
        await run(isFirst ? insertSql(id, record, found, next) : updateSql(id, record, found, next));
      } catch (error) {
        if (errnoOf(error) !== DUPLICATE) throw error;
        isRaced = true;
        return { overtakenBy: undefined };
      }
      // A stale snapshot of the transaction would repeat the race for ever, so the next read locks and sees the latest.
      isRaced = true;
      if ((await run(sql.isMarkedSql(id, mark))) === undefined) return { overtakenBy: undefined };
      const fence = await run("SELECT CAST(LAST_INSERT_ID() AS CHAR) AS answer");
      return { fence: Number(fence) };
    },
  });
}

/** Throws `options-invalid` if the connection has no open transaction. */
export async function requireOpen(run: RunText, instead: string): Promise<void> {
  // Without a transaction each statement commits by itself, and no savepoint is kept.
  await run(sql.SAVEPOINT);
  if (await isSame(run)) return;
  throw new NevertwiceError(
    "options-invalid",
    `the connection has no open transaction, so nothing was run: begin one first, or ${instead}.`,
  );
}

const DUPLICATE = 1062;
const UNKNOWN_VARIABLE = 1193;
const NO_SAVEPOINT = 1305;
const NO_TABLE = 1146;
/** A lock that was not free: MariaDB, and MySQL with NOWAIT. */
const LOCKED: readonly (number | undefined)[] = [1205, 3572];
/** The same, and a deadlock, by which Galera ends what another node has overtaken. */
const CONFLICTS_OF_SETTLE: readonly (number | undefined)[] = [...LOCKED, 1213];
const CONFLICTS: readonly (number | undefined)[] = [1205, 1213];
/** The server was shutting down, ended the connection, or failed during COMMIT itself. */
const AMBIGUOUS: readonly (number | undefined)[] = [1053, 1152, 1180, 1184, 1317, 1927, 3169];

/** The server's number of an error, or of the error that caused it: query builders wrap the errors of their drivers. */
function errnoOf(error: unknown): number | undefined {
  for (let cause: unknown = error, depth = 0; cause !== undefined && depth < 5; depth++) {
    const { errno, sqlState } = (cause ?? {}) as { readonly errno?: unknown; readonly sqlState?: unknown };
    if (typeof errno === "number" && sqlState !== undefined) return errno;
    cause = (cause as { readonly cause?: unknown } | null)?.cause;
  }
  return undefined;
}

/** An error that the server answered to COMMIT means that it rolled back, unless it ended the connection as well. */
function judgeFailure(error: unknown): CommitFailure {
  const errno = errnoOf(error);
  if (errno === undefined || isNevertwiceError(error)) return "ambiguous";
  if (CONFLICTS.includes(errno)) return "repeat";
  return AMBIGUOUS.includes(errno) ? "ambiguous" : "rolled-back";
}
