/**
 * How statements run that are not about single records: lists, counts, erasures and purges. The server ends each of them after
 * two seconds, so that none outlives its caller for long; and those that an operator asks for take turns (`in-turn.ts`). The
 * limit is that of a transaction, so that it also holds behind a pooler that gives each transaction another connection.
 */
import { turnsFor } from "../in-turn.ts";
import type { IsCancelled, PostgresClient, PostgresRunner, RunStatement, Statement } from "./client.ts";
import type { Readiness } from "./schema.ts";

const STATEMENT_TIMEOUT_MS = 2_000;

/** Runs work in a transaction on a server that was checked. */
export type RunInTransaction = <T>(
  work: (run: RunStatement) => Promise<T>,
  isCancelled?: IsCancelled,
) => Promise<T>;

/** Transactions whose statements are limited in time. */
export interface OperatorStatements {
  /** For the background: not in turn. */
  readonly bounded: RunInTransaction;
  /** For operators. */
  readonly inTurn: RunInTransaction;
}

/** Where the statements run. */
export interface OperatorServer {
  readonly client: PostgresClient;
  readonly runner: PostgresRunner;
  readonly readiness: Pick<Readiness, "ready" | "rechecked">;
}

export function createOperatorStatements({ client, runner, readiness }: OperatorServer): OperatorStatements {
  const turns = turnsFor(client);
  const bounded: RunInTransaction = async (work, isCancelled) => {
    await readiness.ready();
    const limits = { isCancelled, statementTimeoutMs: STATEMENT_TIMEOUT_MS };
    return readiness.rechecked(runner.transact(work, limits));
  };
  return { bounded, inTurn: (work, isCancelled) => turns(() => bounded(work, isCancelled), isCancelled) };
}

/** The same for single statements, each in its form for the tables as they are. */
interface OperatorRunners {
  readonly bounded: RunStatement;
  /** Not in turn, under the settings of lists. */
  readonly searching: RunStatement;
  /** In turn, under the settings of lists. */
  readonly inTurn: RunStatement;
}

export function createOperatorRunners(server: OperatorServer, settings: Statement): OperatorRunners {
  const { bounded, inTurn } = createOperatorStatements(server);
  const each =
    (transact: RunInTransaction, first?: Statement): RunStatement =>
    async (statement, parameters, isCancelled) => {
      const { unmigrated = statement } = statement;
      const { hasSteps } = await server.readiness.ready();
      return transact(async (run) => {
        if (first !== undefined) await run(first, []);
        return run(hasSteps ? statement : unmigrated, parameters);
      }, isCancelled);
    };
  return { bounded: each(bounded), searching: each(bounded, settings), inTurn: each(inTurn, settings) };
}
