/**
 * The statements that the Postgres store runs on a connection of the application, in its transaction. Each returns at most one
 * row with one column of text.
 */
import type { PreparableStatement } from "../../core/store-transactions.ts";
import { claimInside } from "./claims-sql.ts";
import { errorState } from "./errors.ts";
import { fromHex } from "./ids.ts";
import { literal, withLiterals } from "./literals.ts";
import { addedStep, CLOCK, claimLock, hasStep } from "./record-sql.ts";
import { completeStep } from "./settlements-sql.ts";

/** Names a statement by its purpose and text. */
export type NameStatement = (purpose: string, text: string) => string;

/** Writes the statement for the names of its values. The values are text. */
type WriteStatement = (value: (index: number) => string) => string;

/** Returns a function that gives the statement its values, and adds it to its family unless nothing is to be prepared. */
function preparable(
  { family, isPrepared }: { family: { name: string; prepared: string }[]; isPrepared: boolean },
  nameStatement: NameStatement,
  purpose: string,
  write: WriteStatement,
): (...values: readonly string[]) => PreparableStatement {
  const prepared = write((index) => `$${index}`);
  const name = nameStatement(purpose, prepared);
  if (isPrepared) family.push({ name, prepared });
  return (...values) => ({
    name,
    prepared,
    values,
    family,
    toText: () => write((index) => literal(values[index - 1] as string)),
    toExecution: () => `EXECUTE ${name} (${values.map(literal).join(", ")})`,
  });
}

/** A setting of the transaction, lowered to `ms` unless the application has set a lower limit. */
function limit(name: string, ms: string): string {
  const current = `extract(epoch FROM current_setting('${name}')::interval) * 1000`;
  return `set_config('${name}', round(least(nullif(${current}, 0), (${ms})::numeric))::text, true) IS NOT NULL`;
}

/** The statements of a table of records. Each is given its values in the order of the parameters that are named here. */
export interface TransactionStatements {
  /**
   * Locks the record `id` that the `token` owns, and limits the time of the transaction to `ms`. Returns the number of the
   * transaction, which shows later whether it is still the same one. Returns no row if the token does not own a pending
   * record.
   */
  readonly lock: (id: string, token: string, ms: string) => PreparableStatement;
  /**
   * Completes the record `id` if the `token` owns it, and the transaction has the number `mark` or `mark` is empty. Returns no
   * row if it wrote nothing.
   */
  readonly complete: (
    id: string,
    token: string,
    outcome: string,
    retention: string,
    mark: string,
  ) => PreparableStatement;
  /** The same, but it fails if it wrote nothing: see `refusalIn`. */
  readonly completeOrFail: TransactionStatements["complete"];
  /**
   * Keeps a step, whose line is `start`, the time and `end`, if the `token` owns the pending record `id`, the record has no
   * step of this name, and the transaction has the number `mark`. Returns no row if it wrote nothing.
   */
  readonly keepStep: (
    id: string,
    token: string,
    start: string,
    end: string,
    mark: string,
  ) => PreparableStatement;
  /** The same, but it fails if it wrote nothing. */
  readonly keepStepOrFail: TransactionStatements["keepStep"];
}

export function transactionStatements(
  records: string,
  { isMigrated, isPrepared }: { readonly isMigrated: boolean; readonly isPrepared: boolean },
  nameStatement: NameStatement,
): TransactionStatements {
  const complete: WriteStatement = (value) => completion(records, isMigrated, value);
  const keep: WriteStatement = (value) => keeping(records, value);
  const statement = preparable.bind(undefined, { family: [], isPrepared }, nameStatement);
  return {
    lock: statement("lock", (value) => lock(records, value)),
    complete: statement("complete_inside", complete),
    completeOrFail: statement("complete_or_fail", (value) => orFail(complete(value), value(5))),
    keepStep: statement("keep_inside", keep),
    keepStepOrFail: statement("keep_or_fail", (value) => orFail(keep(value), value(5))),
  };
}

const asText = (value: string) => `(${value}::text)`;

function fiveTexts(value: (index: number) => string): [string, string, string, string, string] {
  return [1, 2, 3, 4, 5].map((index) => asText(value(index))) as [string, string, string, string, string];
}

function lock(records: string, value: (index: number) => string): string {
  const [id, token, ms] = [1, 2, 3].map((index) => asText(value(index))) as [string, string, string];
  const limits = ["statement_timeout", "idle_in_transaction_session_timeout"].map((name) => limit(name, ms));
  return `SELECT txid_current()::text FROM ${records}
    WHERE id = ${fromHex(id)} AND token = ${token} AND state = 'pending' AND NOT spent
      AND (SELECT ${limits.join(" AND ")} AND pg_advisory_xact_lock(${claimLock(id)}) IS NOT NULL)
    FOR UPDATE`;
}

/** The new values are computed from the record, the call and `now`, as the store's own statement does it. */
function completion(records: string, isMigrated: boolean, value: (index: number) => string): string {
  const [id, token, outcome, retention, mark] = fiveTexts(value);
  const changes = Object.entries(completeStep(isMigrated).next);
  return `UPDATE ${records} SET ${changes.map(([name, next]) => `${name} = ${next}`).join(", ")}
    FROM (
      SELECT ${CLOCK} AS now, ${outcome} AS asked_outcome, ${retention}::bigint AS asked_retention OFFSET 0
    ) AS call
    WHERE id = ${fromHex(id)} AND token = ${token} AND state = 'pending' AND (${mark} = '' OR ${isSameSql(mark)})
    RETURNING 'completed'`;
}

function keeping(records: string, value: (index: number) => string): string {
  const [id, token, start, end, mark] = fiveTexts(value);
  return `UPDATE ${records} SET steps = ${addedStep(start, CLOCK, end)}
    WHERE id = ${fromHex(id)} AND token = ${token} AND state = 'pending' AND NOT spent
      AND NOT ${hasStep(start)} AND ${isSameSql(mark)}
    RETURNING 'completed'`;
}

/**
 * Fails unless the statement returns a row: a text that is no number becomes one. COMMIT follows in the same message, and the
 * server does not carry it out after an error.
 */
function orFail(statement: string, mark: string): string {
  return `WITH done AS (${statement})
    SELECT CASE WHEN count(*) > 0 THEN 'completed'
      ELSE (CASE WHEN ${isSameSql(asText(mark))} THEN '${REFUSAL}lost' ELSE '${REFUSAL}left' END || count(*))::integer::text
    END FROM done`;
}

const REFUSAL = "nevertwice:";
const NOT_A_NUMBER = "22P02";

/** Why a statement that fails unless it writes has written nothing; undefined for any other error. */
export function refusalIn(error: unknown): "lost" | "left" | undefined {
  if (errorState(error) !== NOT_A_NUMBER) return undefined;
  const message = String((error as { readonly message?: unknown } | null)?.message);
  if (message.includes(`"${REFUSAL}lost0"`)) return "lost";
  return message.includes(`"${REFUSAL}left0"`) ? "left" : undefined;
}

/** Whether the transaction has this number. */
function isSameSql(mark: string): string {
  return `(txid_current()::text = ${mark})`;
}

/** Returns `true` if the transaction has this number. */
export function askSameSql(mark: string): string {
  return `SELECT ${isSameSql(literal(mark))}::text`;
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
    WHERE id = ${fromHex("($1::text)")} AND (SELECT set_config('lock_timeout', ($3::text), true)) IS NOT NULL
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
    WHERE id = ${fromHex("($1::text)")} AND (SELECT set_config('lock_timeout', ($3::text), true)) IS NOT NULL
    FOR UPDATE
  ) AS locked`;
}

/** Claims in the application's transaction. The parameters are those of the store's own claims. */
export function claimSql(records: string, parameters: readonly string[], isMigrated: boolean): string {
  return withLiterals(claimInside(records, isMigrated), parameters);
}
