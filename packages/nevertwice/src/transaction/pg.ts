/** Transactions on a `pg` Pool. */
import { answerWithin, firstText, ROLLBACK_MS, type TransactionDatabase } from "./database.ts";

/** The members of a `pg` Pool that are used here. `Client` is the type of its connections. */
export interface PgPoolShape<Client = unknown> {
  readonly connect: {
    (): Promise<Client>;
    (callback: never): unknown;
  };
  readonly totalCount: number;
}

/** A connection of the pool. */
interface PgConnection {
  query(text: string): Promise<unknown>;
  on(event: "error", listener: () => void): unknown;
  off(event: "error", listener: () => void): unknown;
  release(isBroken?: boolean): void;
}

export function isPgPool(value: unknown): value is PgPoolShape {
  const { connect, totalCount } = (value ?? {}) as Partial<PgPoolShape>;
  return typeof connect === "function" && typeof totalCount === "number";
}

export function pgDatabase<Client>(pool: PgPoolShape<Client>): TransactionDatabase<Client> {
  return {
    source: pool,
    async transact(body, { waitMs }) {
      const client = (await pool.connect()) as Client & PgConnection;
      // Without a listener, the loss of a connection in use would end the process.
      client.on("error", ignore);
      try {
        await client.query("BEGIN");
        await body(client, async (text) => firstText(await client.query(text)));
        await answerWithin(waitMs, client.query("COMMIT"));
      } catch (error) {
        // Closing the connection rolls back as well.
        await answerWithin(ROLLBACK_MS, client.query("ROLLBACK")).then(
          () => release(client, true),
          () => release(client, false),
        );
        throw error;
      }
      release(client, true);
    },
  };
}

function release(client: PgConnection, isUsable: boolean): void {
  if (isUsable) client.off("error", ignore);
  client.release(!isUsable);
}

function ignore(): void {}
