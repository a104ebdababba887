/**
 * The statements that the Postgres store runs on a connection of the application, in its transaction. Values are literals,
 * since query builders have no common form of parameters. Each returns at most one row with one column of text.
 */
import { stepLine } from "../../core/kept-steps.ts";
import { addedStep, CLOCK, claimInside, claimLock, completeStep, hasStep } from "../postgres-sql.ts";

/** The statement with its text parameters as literals. */
export function withLiterals(text: string, parameters: readonly string[]): string {
  return text.replace(/\$(\d)::text/g, (_, number) => literal(parameters[Number(number) - 1] as string));
}

/** A string as its UTF-8 bytes, so that no setting of the connection can change its meaning. */
function literal(text: string): string {
  return `convert_from(decode('${Buffer.from(text, "utf8").toString("hex")}', 'hex'), 'UTF8')`;
}

/** A setting of the transaction, lowered to `ms` unless the application has set a lower limit. */
function limit(name: string, ms: number): string {
  const current = `extract(epoch FROM current_setting('${name}')::interval) * 1000`;
  return `set_config('${name}', round(least(nullif(${current}, 0), ${ms}))::text, true) IS NOT NULL`;
}

/**
 * Locks the record that the token owns, and limits the time of the transaction. Returns the number of the transaction, which
 * shows later whether it is still the same one. Returns no row if the token does not own a pending record.
 */
export function lockSql(
  records: string,
  owner: { id: string; token: string },
  transactionMs: number,
): string {
  const limits = ["statement_timeout", "idle_in_transaction_session_timeout"].map((name) =>
    limit(name, transactionMs),
  );
  return `SELECT txid_current()::text FROM ${records}
    WHERE id = ${literal(owner.id)} AND token = ${literal(owner.token)} AND state = 'pending' AND NOT spent
      AND (SELECT ${limits.join(" AND ")} AND pg_advisory_xact_lock(${claimLock(literal(owner.id))}) IS NOT NULL)
    FOR UPDATE`;
}

/**
 * Completes the record if the token owns it. With a mark, only in the transaction that has this number; in another one it
 * writes nothing and returns `left`.
 */
export function completeSql(
  records: string,
  given: { id: string; token: string; outcome: string; retention: number },
  mark: string | undefined,
  isMigrated: boolean,
): string {
  const changes = Object.entries(completeStep(isMigrated).next);
  const isSame = mark === undefined ? "true" : isSameSql(mark);
  return `WITH done AS (
    UPDATE ${records} AS r SET ${changes.map(([name]) => `${name} = next_${name}`).join(", ")}
    FROM (
      SELECT id AS own_id, ${changes.map(([name, value]) => `${value} AS next_${name}`).join(", ")}
      FROM (
        SELECT *, ${CLOCK} AS now, ${literal(given.outcome)} AS asked_outcome, ${given.retention}::bigint AS asked_retention
        FROM ${records} WHERE id = ${literal(given.id)}
      ) AS look
      WHERE token = ${literal(given.token)} AND state = 'pending'
    ) AS mine
    WHERE r.id = own_id AND ${isSame}
    RETURNING r.id
  )
  SELECT CASE WHEN EXISTS (SELECT 1 FROM done) THEN 'completed' WHEN ${isSame} THEN 'lost' ELSE 'left' END`;
}

/**
 * Keeps a step if the token owns the pending record, and the record has no step of this name. Only in the transaction that
 * has this number; in another one it writes nothing and returns `left`.
 */
export function keepStepSql(
  records: string,
  given: { id: string; token: string; name: string; outcome: string },
  mark: string,
): string {
  const { start, end } = stepLine(given);
  const isSame = isSameSql(mark);
  return `WITH done AS (
    UPDATE ${records} SET steps = ${addedStep(literal(start), CLOCK, literal(end))}
    WHERE id = ${literal(given.id)} AND token = ${literal(given.token)} AND state = 'pending' AND NOT spent
      AND NOT ${hasStep(literal(start))} AND ${isSame}
    RETURNING id
  )
  SELECT CASE WHEN EXISTS (SELECT 1 FROM done) THEN 'completed' WHEN ${isSame} THEN 'lost' ELSE 'left' END`;
}

/** Whether the transaction has this number. */
export function isSameSql(mark: string): string {
  return `(txid_current()::text = ${literal(mark)})`;
}

/** Ends the connection on which it runs, and so rolls its transaction back. */
export const END_CONNECTION = "SELECT pg_terminate_backend(pg_backend_pid())::text";

/**
 * The state of the record `$1` if the token `$2` owns it, else `lost`; no row if there is no record. Waits up to `$3`
 * milliseconds for a transaction that has locked the record.
 */
export function settleSql(records: string): string {
  return `SELECT CASE WHEN token = ($2::text) THEN state ELSE 'lost' END FROM (
    SELECT state, token FROM ${records}
    WHERE id = ($1::text) AND (SELECT set_config('lock_timeout', ($3::text), true)) IS NOT NULL
    FOR UPDATE
  ) AS locked`;
}

/**
 * The same for a transaction that was to keep a step, whose line begins with `$4`: `completed` if the record has the step,
 * `pending` if it lacks it, `lost` if the token no longer owns the pending record.
 */
export function settleStepSql(records: string): string {
  return `SELECT CASE WHEN token <> ($2::text) OR state <> 'pending' THEN 'lost'
      WHEN ${hasStep("($4::text)")} THEN 'completed' ELSE 'pending' END FROM (
    SELECT state, token, steps FROM ${records}
    WHERE id = ($1::text) AND (SELECT set_config('lock_timeout', ($3::text), true)) IS NOT NULL
    FOR UPDATE
  ) AS locked`;
}

/** Claims in the application's transaction. The parameters are those of the store's own claims. */
export function claimSql(records: string, parameters: readonly string[], isMigrated: boolean): string {
  return withLiterals(claimInside(records, isMigrated), parameters);
}
