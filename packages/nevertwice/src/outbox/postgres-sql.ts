/**
 * The statements of the outbox on Postgres. Times are microseconds of the server's clock, and all parameters are text.
 * Statements have no name, so each is planned for the size that the table has now: a plan that was made for an empty table
 * would read a full one from end to end. For the same reason rows are found by `= ANY (ARRAY(…))` and by subqueries with a
 * LIMIT, which the planner cannot turn into a join of whole tables. `store.ts` says why no message is forgotten.
 */
import { hash } from "node:crypto";
import type { Statement } from "../stores/postgres/client.ts";
import { WAITS_FOR_STANDBYS } from "../stores/postgres/durability.ts";
import { literal } from "../stores/postgres/literals.ts";
import { CLOCK } from "../stores/postgres-sql.ts";
import type { StoredMessage } from "./message.ts";
import { MAX_COUNTED, MAX_DELAY_MS, REPAIR_MARGIN_MS } from "./store.ts";

export interface OutboxTables {
  readonly outbox: string;
  readonly migrations: string;
}

/** Every session may listen; the payload says which namespace. */
export const CHANNEL = "nevertwice_outbox";

/** The id by which relays of a namespace are woken. */
export function wakeId(namespace: string): string {
  return hash("sha256", namespace, "hex").slice(0, 16);
}

/** Writes the messages in the application's transaction, in this order, due at once. Returns no row. */
export function insertText(
  { outbox }: OutboxTables,
  namespace: string,
  messages: readonly StoredMessage[],
  isNotified: boolean,
): string {
  const rows = messages.map(({ id, scope, topic, key, content }) => {
    const texts = [id, namespace, scope, topic].map(literal).join(", ");
    return `(${texts}, ${key === undefined ? "NULL" : literal(key)}, ${literal(content)}, ${CLOCK}, 0)`;
  });
  const insert = `INSERT INTO ${outbox} (id, namespace, scope, topic, key, content, created_at, due_at) VALUES ${rows.join(", ")}`;
  if (!isNotified) return insert;
  // The server sends equal notifications of one transaction once.
  return `WITH written AS (${insert}) SELECT pg_notify('${CHANNEL}', '["${wakeId(namespace)}"]')::text`;
}

/**
 * Claims up to `$2` messages of the namespace `$1` for `$3` microseconds with the token `$4`: up to `$5` of
 * those whose time has come, and new ones from `$6` on. A row with an older one of its
 * key is put behind it, if an older one can be locked; if not, it stays as it is for the next claim. Returns a row with the
 * number of rows that were put behind and the first new row, then the claimed messages in order.
 */
function claim({ outbox }: OutboxTables): string {
  // Comparisons of rows: from a table without statistics, the planner would expect two rows of `due_at = 0`, and sort all.
  const due = (from: string, to: string, most: string) => `SELECT seq, key FROM ${outbox}
    WHERE (namespace, due_at, seq) >= (($1::text), ${from}) AND (namespace, due_at) <= (($1::text), ${to})
    ORDER BY namespace, due_at, seq LIMIT ${most} FOR NO KEY UPDATE SKIP LOCKED`;
  const oldest = `SELECT x.seq FROM ${outbox} AS x WHERE x.namespace = ($1::text) AND x.key = k.key
      ORDER BY x.namespace, x.key, x.seq LIMIT 1`;
  return `WITH late AS MATERIALIZED (
    ${due("1, 0", `(SELECT ${CLOCK})`, "($5::text)::bigint")}
  ), fresh AS MATERIALIZED (
    ${due("0, ($6::text)::bigint", "0", "($2::text)::bigint")}
  ), looked AS MATERIALIZED (
    SELECT seq, key FROM late UNION ALL SELECT seq, key FROM fresh LIMIT ($2::text)::bigint
  ), seen AS MATERIALIZED (
    SELECT k.key, oldest.seq FROM (SELECT DISTINCT key FROM looked WHERE key IS NOT NULL) AS k
    CROSS JOIN LATERAL (${oldest}) AS oldest
  ), heads AS MATERIALIZED (
    SELECT looked.seq FROM looked LEFT JOIN seen ON seen.key = looked.key
    WHERE looked.key IS NULL OR looked.seq = seen.seq
  ), locked AS MATERIALIZED (
    SELECT k.key, oldest.seq
    FROM (SELECT DISTINCT seen.key FROM looked JOIN seen ON seen.key = looked.key WHERE looked.seq > seen.seq) AS k
    CROSS JOIN LATERAL (${oldest} FOR KEY SHARE SKIP LOCKED) AS oldest
  ), behind AS MATERIALIZED (
    SELECT looked.seq FROM looked JOIN locked ON locked.key = looked.key WHERE looked.seq > locked.seq
  ), moved AS (
    UPDATE ${outbox} SET due_at = NULL, token = NULL WHERE seq = ANY (ARRAY(SELECT seq FROM behind)) RETURNING seq
  ), claimed AS (
    UPDATE ${outbox} SET due_at = ${CLOCK} + ($3::text)::bigint, token = ($4::text), attempts = attempts + 1
    WHERE seq = ANY (ARRAY(SELECT seq FROM heads))
    RETURNING seq, id, topic, key, content, created_at, attempts
  )
  SELECT count(*)::text, (SELECT min(seq) FROM fresh)::text, NULL, NULL, NULL, NULL, NULL FROM moved
  UNION ALL
  (SELECT seq::text, id, topic, key, content, created_at::text, attempts::text FROM claimed ORDER BY claimed.seq)`;
}

/**
 * Settles attempts by `seq` and token: deletes `$1`, `$2`; plans the next attempt of `$3`, `$4` after `$5` with the error `$6`;
 * parks `$7`, `$8` with the error `$9`; gives `$10`, `$11` back. A row whose token is another one does not change. Returns how
 * many rows were deleted.
 */
function settle({ outbox }: OutboxTables): string {
  const given = (seqs: number, tokens: number, more = "") =>
    `unnest(($${seqs}::text)::bigint[], ($${tokens}::text)::text[]${more}) AS g`;
  // The array twice, so that the planner uses the primary key however large it thinks the list is.
  const isOwn = (seqs: number) =>
    `o.seq = g.seq AND o.token = g.token AND o.seq = ANY (($${seqs}::text)::bigint[])`;
  return `WITH deleted AS (
    DELETE FROM ${outbox} AS o USING ${given(1, 2)} (seq, token) WHERE ${isOwn(1)} RETURNING o.seq
  ), failed AS (
    UPDATE ${outbox} AS o SET due_at = ${CLOCK} + g.delay, token = NULL, last_error = g.error
    FROM ${given(3, 4, ", ($5::text)::bigint[], ($6::text)::text[]")} (seq, token, delay, error) WHERE ${isOwn(3)}
  ), parked AS (
    UPDATE ${outbox} AS o SET due_at = NULL, token = NULL, parked_at = ${CLOCK}, last_error = g.error
    FROM ${given(7, 8, ", ($9::text)::text[]")} (seq, token, error) WHERE ${isOwn(7)}
  ), released AS (
    UPDATE ${outbox} AS o SET due_at = 1, token = NULL, attempts = greatest(0, o.attempts - 1)
    FROM ${given(10, 11)} (seq, token) WHERE ${isOwn(10)}
  )
  SELECT count(*)::text FROM deleted`;
}

/** Makes the oldest message of each of the keys `$2` due, if it was behind one that is deleted. Returns how many. */
function advance({ outbox }: OutboxTables): string {
  return `WITH heads AS MATERIALIZED (
    SELECT head.seq FROM unnest(($2::text)::text[]) AS given (key)
    CROSS JOIN LATERAL (
      SELECT x.seq, x.due_at, x.parked_at FROM ${outbox} AS x WHERE x.namespace = ($1::text) AND x.key = given.key
      ORDER BY x.namespace, x.key, x.seq LIMIT 1
    ) AS head
    WHERE head.due_at IS NULL AND head.parked_at IS NULL
  ), advanced AS (
    UPDATE ${outbox} SET due_at = 1
    WHERE seq = ANY (ARRAY(SELECT seq FROM heads)) AND due_at IS NULL AND parked_at IS NULL RETURNING seq
  )
  SELECT count(*)::text FROM advanced`;
}

/** Extends the leases of `$1`, `$2` to `$3` microseconds from now. Returns the `seq` of each row that has its token. */
function renew({ outbox }: OutboxTables): string {
  return `UPDATE ${outbox} AS o SET due_at = ${CLOCK} + ($3::text)::bigint
    FROM unnest(($1::text)::bigint[], ($2::text)::text[]) AS g (seq, token)
    WHERE o.seq = g.seq AND o.token = g.token AND o.seq = ANY (($1::text)::bigint[]) RETURNING o.seq::text`;
}

/** A time that no relay writes: the clock went back. The relay that holds such a row renews it before the margin is over. */
function repair({ outbox }: OutboxTables): string {
  return `UPDATE ${outbox} SET due_at = ${CLOCK} + ${REPAIR_MARGIN_MS * 1_000} WHERE seq = ANY (ARRAY(
    SELECT seq FROM ${outbox} WHERE namespace = ($1::text)
      AND due_at > (SELECT ${CLOCK}) + ${(MAX_DELAY_MS + REPAIR_MARGIN_MS) * 1_000}
    ORDER BY namespace, due_at, seq LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED))`;
}

const ROW = `seq::text, id, topic, key, scope, created_at::text, attempts::text, due_at::text, (token IS NOT NULL)::text,
  parked_at::text, last_error, (${CLOCK})::text`;

/** Up to `$3` rows after `$2`; of the key `$4`, or only parked ones. */
function list({ outbox }: OutboxTables, by: "all" | "key" | "parked"): string {
  const where = { all: "", key: "AND key = ($4::text)", parked: "AND parked_at IS NOT NULL" }[by];
  return `SELECT ${ROW} FROM ${outbox} AS o WHERE namespace = ($1::text) AND o.seq > ($2::text)::bigint ${where}
    ORDER BY ${by === "key" ? "o.namespace, o.key, " : ""}o.seq LIMIT ($3::text)::bigint`;
}

/** The row with the id `$2`, unless a relay is delivering it. */
const IS_FREE = `namespace = ($1::text) AND id = ($2::text) AND (token IS NULL OR due_at <= ${CLOCK})`;

/**
 * Rows of (topic, state, count, oldest, now), each state counted up to a limit. The rows that are behind or parked are in
 * one part of the index, so both are counted among twice as many.
 */
function figures({ outbox }: OutboxTables): string {
  const state = `CASE WHEN due_at <= ${CLOCK} THEN 'due' WHEN token IS NULL THEN 'planned' ELSE 'delivering' END`;
  return `SELECT topic, state, count(*)::text, min(created_at)::text, (${CLOCK})::text FROM (
    (SELECT topic, ${state} AS state, created_at FROM ${outbox}
      WHERE namespace = ($1::text) AND due_at >= 0 ORDER BY due_at, seq LIMIT ${MAX_COUNTED})
    UNION ALL
    (SELECT topic, 'parked', created_at FROM ${outbox}
      WHERE namespace = ($1::text) AND parked_at IS NOT NULL ORDER BY seq LIMIT ${MAX_COUNTED})
    UNION ALL
    (SELECT topic, 'behind', created_at FROM (
      SELECT topic, created_at, parked_at FROM ${outbox}
      WHERE namespace = ($1::text) AND due_at IS NULL ORDER BY due_at, seq LIMIT ${2 * MAX_COUNTED}
    ) AS still WHERE parked_at IS NULL)
  ) AS counted GROUP BY topic, state`;
}

/** The same columns as in the claim store: (version, schema, default isolation, is a replica, is read-only, encoding, waits for standbys). */
function check({ migrations }: OutboxTables): string {
  return `SELECT (SELECT max(version) FROM ${migrations})::text, NULL, current_setting('default_transaction_isolation'),
    pg_is_in_recovery()::text, current_setting('transaction_read_only'), current_setting('server_encoding'),
    ${WAITS_FOR_STANDBYS}`;
}

export function createStatements(tables: OutboxTables) {
  const { outbox } = tables;
  const unnamed = (text: string): Statement => ({ name: "", text });
  return {
    claim: unnamed(claim(tables)),
    settle: unnamed(settle(tables)),
    advance: unnamed(advance(tables)),
    renew: unnamed(renew(tables)),
    repair: unnamed(repair(tables)),
    list: unnamed(list(tables, "all")),
    listKey: unnamed(list(tables, "key")),
    listParked: unnamed(list(tables, "parked")),
    retry: unnamed(
      `UPDATE ${outbox} SET due_at = 1, token = NULL, parked_at = NULL, attempts = 0 WHERE ${IS_FREE} RETURNING seq::text`,
    ),
    park: unnamed(
      `UPDATE ${outbox} SET due_at = NULL, token = NULL, parked_at = ${CLOCK} WHERE ${IS_FREE} AND parked_at IS NULL RETURNING seq::text`,
    ),
    discard: unnamed(`DELETE FROM ${outbox} WHERE ${IS_FREE} RETURNING key`),
    /** Deletes up to `$3` messages of the scope `$2`. Returns their keys. */
    forget: unnamed(
      `DELETE FROM ${outbox} WHERE seq = ANY (ARRAY(
        SELECT seq FROM ${outbox} WHERE namespace = ($1::text) AND scope = ($2::text) AND scope <> '' LIMIT ($3::text)::bigint
      )) RETURNING key`,
    ),
    figures: unnamed(figures(tables)),
    check: unnamed(check(tables)),
  };
}
