/** The statements of our Postgres store by hand. */
import { postgresStore } from "nevertwice/stores/postgres";
import pg from "pg";
import { createStatements } from "../../packages/nevertwice/build/stores/postgres-sql.js";
import { grouped, LEASE_MS, RETENTION_MS, rawLoop } from "./raw.js";

const TABLES = { records: "nevertwice_records", migrations: "nevertwice_migrations" };
/** As many statements of a kind at a time as our store sends. */
const FLIGHTS = 2;
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
    const rows = await ask(statements.claim, [
      calls.map(({ id }) => id),
      calls.map(({ parts }) => JSON.stringify([parts.namespace, parts.scope, parts.operation, parts.key])),
      calls.map(({ fingerprint }) => fingerprint ?? null),
      calls.map(({ token }) => token),
      calls.map(() => LEASE_MS * 1_000),
      calls.map(() => RETENTION_MS * 1_000),
      calls.map(() => false),
      calls.map(() => null),
    ]);
    const outcomes = new Map();
    const inserted = new Set();
    const answers = [];
    for (const [position, status, detail, , , id] of rows) {
      if (status === "outcome") outcomes.set(id, detail);
      else if (position === null) inserted.add(id);
      else answers[position - 1] = { status };
    }
    return calls.map(({ id }, i) => {
      const answer = answers[i];
      if (answer?.status === "completed") return { ...answer, outcome: outcomes.get(id) };
      // The first of several calls with one id has claimed it. The others retry, as they do when it is pending.
      return answer ?? (inserted.delete(id) ? { status: "new" } : PENDING);
    });
  }, FLIGHTS);

  const complete = grouped(async (calls) => {
    const rows = await ask(statements.complete, [
      calls.map(({ id }) => id),
      calls.map(({ token }) => token),
      calls.map(({ outcome }) => outcome),
      calls.map(() => RETENTION_MS * 1_000),
    ]);
    const answers = [];
    for (const [position, answer] of rows) answers[position - 1] = answer === "yes";
    return answers;
  }, FLIGHTS);

  return { run: rawLoop({ claim, complete, hasFingerprint }), close: () => pool.end() };
}
