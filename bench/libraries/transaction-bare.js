/** Writes in a plain transaction, without any key. */
import { openTransactions } from "../transaction/transactions.js";

export const isKeyed = false;

export function open(url, connections) {
  const { inTransaction, close } = openTransactions(url, connections);
  return { run: (_key, write) => inTransaction(write), close };
}
