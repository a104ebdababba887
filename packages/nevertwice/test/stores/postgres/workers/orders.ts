/** A Worker that charges in transactions of its Postgres. A connection belongs to the request that opens it, and so does all that uses it. */
import { createGuard } from "nevertwice";
import { postgresStore } from "nevertwice/stores/postgres";
import { once } from "nevertwice/transaction";
import pg from "pg";

interface Env {
  readonly DATABASE_URL: string;
}

interface Context {
  waitUntil(work: Promise<unknown>): void;
}

/** The application's own transaction, in which the work runs once. */
async function chargeOnce(
  pool: pg.Pool,
  request: Parameters<typeof once>[1],
  charge: (tx: pg.PoolClient) => Promise<string>,
): Promise<unknown> {
  const tx = await pool.connect();
  try {
    await tx.query("BEGIN");
    const result = await once(tx, request, charge);
    await tx.query("COMMIT");
    return "value" in result ? result.value : result.status;
  } finally {
    tx.release();
  }
}

// biome-ignore lint/style/noDefaultExport: the runtime looks for the handlers of a Worker there.
export default {
  async fetch(request: Request, env: Env, ctx: Context): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const { key = "", ms = "0" } = Object.fromEntries(searchParams);
    const pool = new pg.Pool({ connectionString: env.DATABASE_URL, max: 2 });
    const store = postgresStore({ client: pool });
    const waitUntil = (work: Promise<unknown>) => ctx.waitUntil(work);
    const guard = createGuard({ store, namespace: "shop", onPending: "wait", waitUntil });
    const charge = async (tx: pg.PoolClient) => {
      await tx.query("INSERT INTO charges (key) VALUES ($1)", [key]);
      await new Promise((resolve) => setTimeout(resolve, Number(ms)));
      return crypto.randomUUID();
    };
    try {
      if (pathname === "/migrate") return Response.json((await store.migrate()) ?? null);
      const subject = { operation: "charge", key };
      if (pathname === "/once") return Response.json(await chargeOnce(pool, { ...subject, guard }, charge));
      return Response.json(await guard.transaction(subject, pool, charge));
    } finally {
      ctx.waitUntil(pool.end());
    }
  },
};
