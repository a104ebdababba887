/** nevertwice/transaction: work that runs once inside a transaction that the application has open. */
export type { DatabaseHandle, TransactionOf } from "../core/database-handle.ts";
export type { TransactionBody, TransactionDatabase, TransactionLimitsMs } from "./database.ts";
export { type OnceRequest, type OnceResult, once } from "./once.ts";
