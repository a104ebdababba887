/** Interactive transactions of Prisma on Postgres: the work is given Prisma's own transaction client. */
import type { RunText } from "../core/store-transactions.ts";
import { firstText, plainText, type TransactionDatabase } from "./database.ts";

export type { TransactionDatabase } from "./database.ts";

/** The members of a Prisma client that are used here. */
export interface PrismaShape<Tx> {
  $transaction(
    work: (tx: Tx) => Promise<unknown>,
    options: { readonly maxWait: number; readonly timeout: number },
  ): Promise<unknown>;
}

/** The part of a transaction of Prisma that is used here. */
export interface PrismaTransaction {
  $queryRawUnsafe(text: string): PromiseLike<unknown>;
}

/**
 * `guard.transaction(request, prismaDatabase(prisma), (tx) => …)`. The client must use the database of the store.
 * @example
 * ```ts server
 * import { createGuard } from "nevertwice";
 * import { openStore } from "nevertwice/stores/open";
 * import { type PrismaShape, type PrismaTransaction, prismaDatabase } from "nevertwice/transaction/prisma";
 *
 * export async function pay(prisma: PrismaShape<PrismaTransaction>) {
 *   const guard = createGuard({ store: await openStore("postgres://localhost/shop") });
 *   await guard.transaction({ operation: "pay", key: "order-17" }, prismaDatabase(prisma), async (tx) => {
 *     await tx.$queryRawUnsafe("UPDATE orders SET paid = true WHERE id = 'order-17'");
 *   });
 * }
 * ```
 */
export function prismaDatabase<Tx>(client: PrismaShape<Tx>): TransactionDatabase<Tx> {
  return {
    source: client,
    transact: (body, { waitMs, transactionMs }) =>
      client.$transaction(
        (tx) => body(tx, runPrisma(tx as PrismaTransaction)),
        // Prisma's own limit is five seconds. It counts from the start, so it gets the time for the answer as well.
        { maxWait: waitMs, timeout: transactionMs + waitMs },
      ),
  };
}

/** Runs statements in a transaction of Prisma that you have open, for `once` and for an outbox. */
export function runPrisma(tx: PrismaTransaction): RunText {
  return async (statement) => firstText(await tx.$queryRawUnsafe(plainText(statement)));
}
