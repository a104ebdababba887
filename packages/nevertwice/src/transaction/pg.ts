/**
 * Transactions on a `pg` Pool. BEGIN goes in one message with the first statement, and COMMIT with the last one. Statements
 * are prepared once for each connection in SQL, since a message can hold several statements only without parameters.
 */
import type { PgPoolShape } from "../core/database-handle.ts";
import type { PreparableStatement, RunText } from "../core/store-transactions.ts";
import { answerWithin, firstText, plainText, ROLLBACK_MS, type TransactionDatabase } from "./database.ts";

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
      const open = new PgTransaction(client, pool, waitMs);
      try {
        await body(client, open.run, open.runAndCommit);
        await open.commit();
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

/** Pools behind a proxy that gives each transaction another connection, where nothing stays prepared. */
const unprepared = new WeakSet<object>();

/** One transaction on one connection. */
class PgTransaction {
  readonly run: RunText;
  readonly runAndCommit: RunText;
  readonly #client: PgConnection;
  readonly #pool: object;
  readonly #waitMs: number;
  #isBegun = false;
  #isCommitted = false;

  constructor(client: PgConnection, pool: object, waitMs: number) {
    this.#client = client;
    this.#pool = pool;
    this.#waitMs = waitMs;
    this.run = (statement) => (this.#isBegun ? this.#query(statement) : this.#begin(statement));
    this.runAndCommit = async (statement) => {
      const answer = await answerWithin(waitMs, this.#query(statement, "", ";COMMIT"));
      this.#isCommitted = true;
      return answer;
    };
  }

  async commit(): Promise<void> {
    if (!this.#isCommitted) await answerWithin(this.#waitMs, this.#client.query("COMMIT"));
  }

  async #begin(statement: string | PreparableStatement): Promise<string | undefined> {
    this.#isBegun = true;
    try {
      if (typeof statement !== "string") await this.#prepare(statement);
      return await this.#query(statement, "BEGIN;");
    } catch (error) {
      if (!isPreparedElsewhere(error)) throw error;
      // Nothing has happened yet in this transaction.
      await this.#client.query("ROLLBACK");
      return this.#query(statement, "BEGIN;");
    }
  }

  /** One message for each statement of the family, at the first transaction on this connection. */
  async #prepare({ family }: PreparableStatement): Promise<void> {
    if (unprepared.has(this.#pool)) return;
    const names = preparedOn(this.#client);
    for (const { name, prepared } of family) {
      if (names.has(name)) continue;
      await this.#send(`PREPARE ${name} AS ${prepared}`);
      names.add(name);
    }
  }

  async #query(
    statement: string | PreparableStatement,
    before = "",
    after = "",
  ): Promise<string | undefined> {
    const answer = await this.#send(before + this.#toText(statement) + after);
    // Several statements in a message have several answers. Those of BEGIN and COMMIT have no rows.
    return firstText(Array.isArray(answer) ? answer.find(hasRows) : answer);
  }

  #toText(statement: string | PreparableStatement): string {
    if (typeof statement === "string" || unprepared.has(this.#pool)) return plainText(statement);
    return preparedOn(this.#client).has(statement.name) ? statement.toExecution() : plainText(statement);
  }

  async #send(text: string): Promise<unknown> {
    try {
      return await this.#client.query(text);
    } catch (error) {
      if (isPreparedElsewhere(error)) unprepared.add(this.#pool);
      throw error;
    }
  }
}

/** A registered symbol, so that all copies of this package share what a connection has prepared. */
const PREPARED: unique symbol = Symbol.for("nevertwice.prepared") as never;

function preparedOn(client: object): Set<string> {
  const prepared = client as { [PREPARED]?: Set<string> };
  prepared[PREPARED] ??= new Set();
  return prepared[PREPARED];
}

/** No such prepared statement on this connection, or it is there already: a proxy has exchanged the connection. */
function isPreparedElsewhere(error: unknown): boolean {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  return code === "26000" || code === "42P05";
}

function hasRows(answer: { readonly rows?: readonly unknown[] }): boolean {
  return (answer.rows?.length ?? 0) > 0;
}

function release(client: PgConnection, isUsable: boolean): void {
  if (isUsable) client.off("error", ignore);
  client.release(!isUsable);
}

function ignore(): void {}
