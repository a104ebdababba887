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

export interface PrismaTransaction {
  $queryRawUnsafe(text: string): PromiseLike<unknown>;
}

/** `guard.transaction(request, prismaDatabase(prisma), (tx) => …)`. The client must use the database of the store. */
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

export function runPrisma(tx: PrismaTransaction): RunText {
  return async (statement) => firstText(await tx.$queryRawUnsafe(plainText(statement)));
}
