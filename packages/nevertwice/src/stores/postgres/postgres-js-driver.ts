/** Runs statements on the `sql` of postgres.js. */
import {
  BEGIN,
  cancelledError,
  type IsCancelled,
  ignore,
  onCancelled,
  type PostgresDriver,
  type PostgresJs,
  type PostgresJsQuery,
  type PostgresJsTransaction,
  type PostgresRow,
  type RunStatement,
  type Statement,
  type TransactionLimits,
} from "./client.ts";
import { isConnectionOver } from "./errors.ts";

const limitedTo = (ms: number): Statement => ({
  name: "",
  text: `SELECT set_config('statement_timeout', '${ms}', true)`,
});

/** How often to repeat a cancel request. */
const PAUSE_MS = 500;

export function createPostgresJsDriver(sql: PostgresJs, isPrepared: boolean): PostgresDriver {
  async function runOn(
    { unsafe }: PostgresJsTransaction,
    { text }: Statement,
    parameters: readonly string[],
    isCancelled: IsCancelled | undefined,
  ): Promise<readonly PostgresRow[]> {
    if (isCancelled?.()) throw cancelledError();
    const query = unsafe(text, parameters as string[], { prepare: isPrepared });
    let repeated: ReturnType<typeof setInterval> | undefined;
    const stop = onCancelled(isCancelled, () => {
      cancel(query);
      // A cancel request that arrives before the statement ends nothing.
      repeated = setInterval(cancel, PAUSE_MS, query);
      repeated.unref?.();
    });
    try {
      // Raw rows are bytes, to which no transformation of the application applies. The answer is awaited however late it
      // is, so that the caller can give back a claim that was granted after all.
      const rows = await query.raw();
      return Array.from(rows, (row) => row.map((column) => column?.toString() ?? null));
    } finally {
      stop();
      clearInterval(repeated);
    }
  }

  return {
    cancelsBlindly: true,
    run: (statement, parameters, isCancelled) => runOn(sql, statement, parameters, isCancelled),
    transact: async <T>(
      work: (run: RunStatement) => Promise<T>,
      { isCancelled, statementTimeoutMs }: TransactionLimits = {},
    ) =>
      (await sql.begin(BEGIN, async (transaction) => {
        let isOver = false;
        const run: RunStatement = async (statement, parameters) => {
          try {
            return await runOn(transaction, statement, parameters, isCancelled);
          } catch (error) {
            isOver = isConnectionOver(error);
            throw error;
          }
        };
        try {
          if (statementTimeoutMs === undefined) return await work(run);
          await run(limitedTo(statementTimeoutMs), []);
          const done = await work(run);
          await run(limitedTo(0), []);
          return done;
        } catch (error) {
          // The driver would send ROLLBACK on the lost connection and throw an error that no caller can catch. `begin`
          // rejects by itself when the connection closes.
          if (isOver) await new Promise<never>(() => {});
          throw error;
        }
      })) as T,
  };
}

/**
 * Asks the server to end the query, if it is the one that its connection runs. postgres.js cannot cancel any other query: one
 * that waits behind another on its connection leaves its answer to the next query, and one that waits for its connection
 * blocks that connection for ever. Such a query is cancelled once it runs.
 *
 * The query's own `cancel()` causes an unhandled rejection when the server cannot be reached, which ends the process.
 */
function cancel(query: PostgresJsQuery): void {
  const { canceller, active } = query as {
    readonly canceller?: ((query: unknown) => Promise<unknown>) | null;
    readonly active?: boolean;
  };
  if (active === true && typeof canceller === "function") canceller(query).catch(ignore);
}
