/** The statements of our Postgres store by hand: the small ones, and the full one for a claim that they leave open. */
import { postgresStore } from "nevertwice/stores/postgres";
import pg from "pg";
import {
  quickClaims,
  quickCompletions,
} from "../../packages/nevertwice/build/stores/postgres/quick-steps.js";
import { createStatements } from "../../packages/nevertwice/build/stores/postgres-sql.js";
import { grouped, LEASE_MS, RETENTION_MS, rawLoop } from "./raw.js";

const TABLES = { records: "nevertwice_records", migrations: "nevertwice_migrations" };
/** As many statements of a kind at a time as our store sends. */
const FLIGHTS = 3;
const PENDING = { status: "pending" };

export async function create({ target, hasFingerprint }) {
  const pool = new pg.Pool({ connectionString: target.url, max: 10 });
  await postgresStore({ client: pool }).migrate();
  const statements = createStatements(TABLES, (what) => what);

  async function ask({ together }, values) {
    const { rows } = await pool.query({ ...together, values, rowMode: "array" });
    return rows;
  }

  const claim = grouped(async (calls) => {
    const requests = calls.map((call) => ({
      ...call,
      leaseMs: LEASE_MS,
      retentionMs: RETENTION_MS,
      hold: false,
    }));
    const sent = [...new Map(requests.map((request) => [request.id, request])).values()];
    const rows = await ask(statements.claim.quick, quickClaims.toParameters(sent));
    const answers = quickClaims.toAnswers(requests, sent.length === requests.length ? requests : sent, rows);
    return Promise.all(requests.map((request, i) => answers[i] ?? decide(request)));
  }, FLIGHTS);

  /** Only the status matters: the loop claims a pending key again, and its outcome comes with that claim. */
  async function decide({ id, parts, fingerprint, token, leaseMs, retentionMs }) {
    const kept = JSON.stringify([parts.namespace, parts.scope, parts.operation, parts.key]);
    const values = [[id], [kept], [fingerprint ?? null], [token], [leaseMs * 1_000], [retentionMs * 1_000]];
    const rows = await ask(statements.claim, [...values, [false], [null]]);
    const [, status] = rows.find(([position]) => position !== null) ?? [];
    return status === "completed" ? PENDING : { status: status ?? "new" };
  }

  const complete = grouped(async (calls) => {
    const requests = calls.map((call) => ({ ...call, retentionMs: RETENTION_MS }));
    const rows = await ask(statements.complete.quick, quickCompletions.toParameters(requests));
    return quickCompletions.toAnswers(requests, requests, rows);
  }, FLIGHTS);

  return { run: rawLoop({ claim, complete, hasFingerprint }), close: () => pool.end() };
}
