/** A payment and its record in one commit, with Prisma 7 on Postgres. Clicks pay once, and a failure leaves nothing behind. */
import { PrismaPg } from "@prisma/adapter-pg";
import { createGuard } from "nevertwice";
import { migrationSql, postgresStore } from "nevertwice/stores/postgres";
import { prismaDatabase } from "nevertwice/transaction/prisma";
import pg from "pg";
import { type Payment, tellStory } from "../transaction/story.js";
import { PrismaClient } from "./generated/client.js";

const { DATABASE_URL } = process.env;
if (!DATABASE_URL) {
  console.log("This one needs a database: DATABASE_URL=postgres://localhost/test npm start");
  process.exit();
}

// A schema of its own, which is gone afterwards.
const schema = `payments_prisma_${process.pid}`;
const connection = { connectionString: DATABASE_URL, options: `-c search_path=${schema}` };
const pool = new pg.Pool(connection);
const prisma = new PrismaClient({ adapter: new PrismaPg(connection, { schema }) });
const guard = createGuard({ store: postgresStore({ client: pool }), purgeEveryMs: 0 });

const pay = ({ order, amount, onPending, beforeCommit }: Payment) =>
  guard.transaction(
    { operation: "pay", key: order, fingerprint: { amount }, onPending },
    prismaDatabase(prisma),
    async (tx) => {
      const payment = await tx.payment.create({ data: { orderId: order, amount } });
      if (amount > 100) throw new Error("over the limit");
      await beforeCommit?.();
      return { paid: payment.amount };
    },
  );

await pool.query(`CREATE SCHEMA ${schema}`);
try {
  await pool.query(
    `${migrationSql()}; CREATE TABLE payments (order_id text PRIMARY KEY, amount int NOT NULL)`,
  );
  await tellStory(pay, async () => {
    const payments = await prisma.payment.findMany();
    return payments.map(({ orderId, amount }) => [orderId, amount] as const);
  });
} finally {
  await guard.close();
  await pool.query(`DROP SCHEMA ${schema} CASCADE`);
  await prisma.$disconnect();
  await pool.end();
}
