/** Recognises a transaction that the application has open, by its members, and how to run a text in it. */
import { NevertwiceError } from "../core/errors.ts";
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText } from "./database.ts";
import { type DrizzleTransaction, runDrizzle } from "./drizzle.ts";
import { type KnexTransaction, runKnex } from "./knex.ts";
import { type KyselyTransaction, runKysely } from "./kysely.ts";
import { isMysqlPool } from "./mysql2.ts";
import { isPgPool } from "./pg.ts";
import { isPostgresJs, runPostgresJs } from "./postgres-js.ts";
import { type PrismaTransaction, runPrisma } from "./prisma.ts";

type Members = Readonly<Record<string, unknown>>;

interface QueryingConnection {
  query(text: string): Promise<unknown>;
}

const has = (value: unknown, name: string) =>
  typeof (value as Members | null | undefined)?.[name] === "function";
const isCallable = (value: unknown) => typeof value === "function";

/** In order: the first that fits counts. */
const KINDS: readonly (readonly [is: (tx: unknown) => boolean, run: (tx: never) => RunText])[] = [
  [(tx) => has(tx, "$queryRawUnsafe"), (tx: PrismaTransaction) => runPrisma(tx)],
  [(tx) => has(tx, "executeQuery"), (tx: KyselyTransaction) => runKysely(tx)],
  [(tx) => isCallable(tx) && has(tx, "unsafe"), runPostgresJs],
  [(tx) => isCallable(tx) && has(tx, "raw"), (tx: KnexTransaction) => runKnex(tx)],
  [
    (tx) => has(tx, "query"),
    (tx: QueryingConnection) => async (statement) => firstText(await tx.query(plainText(statement))),
  ],
  [(tx) => has(tx, "execute"), (tx: DrizzleTransaction) => runDrizzle(tx)],
];

/** Throws `options-invalid` for a pool, whose statements would run on any of its connections, and for anything else. */
export function runInside(tx: unknown): RunText {
  const kind = isPgPool(tx) || isMysqlPool(tx) || isPostgresJs(tx) ? undefined : KINDS.find(([is]) => is(tx));
  if (kind !== undefined) return kind[1](tx as never);
  throw new NevertwiceError(
    "options-invalid",
    "tx must be a transaction that you have open: a pg client, the sql inside sql.begin, a connection of mysql2/promise, the SQLite connection of the store, or the transaction of Kysely, Drizzle, Prisma or Knex. For a pool, use guard.transaction, or begin a transaction on one of its connections.",
  );
}
