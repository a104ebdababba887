/** Bindings that count the requests through them, and can lose the answers to requests that were carried out. */
import type { D1Database } from "nevertwice/stores/d1";
import type { DurableObjectNamespace } from "nevertwice/stores/durable-objects";

export interface Traffic {
  /** How many requests were sent. */
  sent: number;
  /** How long each batch waits before it is sent, so that steps at once overlap. */
  delayMs: number;
  /** How many of the next answers are lost. */
  toLose: number;
  /** The rows that D1 bills, and the size of the database. */
  rowsRead: number;
  rowsWritten: number;
  bytes: number;
  /** Batches that did not go to the primary for certain. */
  unsafe: number;
}

export const traffic: Traffic = {
  sent: 0,
  delayMs: 0,
  toLose: 0,
  rowsRead: 0,
  rowsWritten: 0,
  bytes: 0,
  unsafe: 0,
};

async function answered<Answer>(answer: Promise<Answer>): Promise<Answer> {
  traffic.sent++;
  const value = await answer;
  if (traffic.toLose === 0) return value;
  traffic.toLose--;
  throw new Error("Network connection lost.");
}

type Batch = ReturnType<D1Database["batch"]>;

async function billed(send: () => Batch): Batch {
  if (traffic.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, traffic.delayMs));
  const results = await answered(send());
  for (const { meta } of results) {
    const { rows_read = 0, rows_written = 0, size_after = 0 } = meta as Record<string, number>;
    traffic.rowsRead += rows_read;
    traffic.rowsWritten += rows_written;
    traffic.bytes = size_after;
  }
  return results;
}

export function observedNamespace(namespace: DurableObjectNamespace): DurableObjectNamespace {
  return {
    idFromName: (name) => namespace.idFromName(name),
    get(id, options) {
      const stub = namespace.get(id, options);
      return { fetch: (url, init) => answered(stub.fetch(url, init)) };
    },
  };
}

export function observedDatabase(database: D1Database): D1Database {
  return {
    prepare: (sql) => database.prepare(sql),
    batch(statements) {
      traffic.unsafe++;
      return billed(() => database.batch(statements));
    },
    withSession(constraint) {
      const session = database.withSession?.(constraint) ?? database;
      let isFirst = constraint === "first-primary";
      return {
        prepare: (sql) => session.prepare(sql),
        batch(statements) {
          if (!isFirst) traffic.unsafe++;
          isFirst = false;
          return billed(() => session.batch(statements));
        },
      };
    },
  };
}
