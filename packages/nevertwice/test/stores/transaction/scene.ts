/** Guards on real databases that have a table `ledger`, whose rows count what was committed without asking the library. */
import { onTestFinished, type TestContext } from "vitest";
import { createGuard, type Guard } from "../../../src/index.ts";
import { migrationSql, postgresStore } from "../../../src/stores/postgres.ts";
import { sharedUrl } from "../../services/services.ts";
import { newStore } from "../mysql/pools.ts";
import { createDatabase, poolOf, query } from "../postgres/database.ts";

export interface LedgerScene {
  readonly url: string;
  readonly guard: Guard;
  rows(): Promise<number>;
}

export async function onPostgres(context: TestContext): Promise<LedgerScene> {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, `${migrationSql()}; CREATE TABLE ledger (key text NOT NULL)`);
  const pool = poolOf(url);
  const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });
  onTestFinished(async () => {
    await guard.close();
    await pool.end();
  });
  const count = () => query<{ count: string }>(url, "SELECT count(*) FROM ledger");
  return { url, guard, rows: async () => Number((await count())[0]?.count) };
}

export async function onMysql(context: TestContext): Promise<LedgerScene> {
  const { url, pool, store } = await newStore(context);
  await pool.query("CREATE TABLE ledger (`key` VARCHAR(64) NOT NULL) ENGINE = InnoDB");
  const guard = createGuard({ store, purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  const count = async () =>
    (await pool.query("SELECT COUNT(*) AS count FROM ledger"))[0] as { readonly count: unknown }[];
  return { url, guard, rows: async () => Number((await count())[0]?.count) };
}
