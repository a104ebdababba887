/** Transactions on a pool of mysql2/promise. */
import { answerWithin, firstText, plainText, ROLLBACK_MS, type TransactionDatabase } from "./database.ts";

/** The members of a pool that are used here. `Connection` is the type of its connections. */
export interface MysqlPoolShape<Connection = unknown> {
  getConnection(): Promise<Connection>;
}

interface MysqlPoolConnection {
  query(text: string): Promise<unknown>;
  release(): void;
  destroy(): void;
}

export function isMysqlPool(value: unknown): value is MysqlPoolShape {
  const { getConnection, promise } = (value ?? {}) as Record<string, unknown>;
  return typeof getConnection === "function" && typeof promise !== "function";
}

export function mysqlDatabase<Connection>(pool: MysqlPoolShape<Connection>): TransactionDatabase<Connection> {
  return {
    source: pool,
    async transact(body, { waitMs }) {
      const connection = (await pool.getConnection()) as Connection & MysqlPoolConnection;
      try {
        await connection.query("START TRANSACTION");
        await body(connection, async (statement) => firstText(await connection.query(plainText(statement))));
        await answerWithin(waitMs, connection.query("COMMIT"));
      } catch (error) {
        // Closing the connection rolls back as well.
        await answerWithin(ROLLBACK_MS, connection.query("ROLLBACK")).then(
          () => connection.release(),
          () => connection.destroy(),
        );
        throw error;
      }
      connection.release();
    },
  };
}
