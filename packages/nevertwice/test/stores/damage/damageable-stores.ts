/** Stores with direct access to the columns of their records, to damage them. */
import { GetCommand, UpdateCommand } from "@aws-sdk/lib-dynamodb";
import type { RowDataPacket } from "mysql2/promise";
import type { TestContext } from "vitest";
import { sqliteStore } from "../../../dist/stores/sqlite.js";
import type { Store } from "../../../src/core/store.ts";
import { dynamodbStore } from "../../../src/stores/dynamodb.ts";
import { mysqlStore } from "../../../src/stores/mysql.ts";
import { postgresStore } from "../../../src/stores/postgres.ts";
import { sharedUrl } from "../../services/services.ts";
import { clientOf, newTable } from "../dynamodb/tables.ts";
import { endpointsIn, newPrefix, openEtcd } from "../etcd/stores.ts";
import { newDatabase, poolOn } from "../mysql/pools.ts";
import { createDatabase, poolOf } from "../postgres/database.ts";
import type { connectionsBeside } from "../sqlite/scratch.ts";

export interface DamageableStore {
  readonly store: Store;
  /** Every column of a record except its id. */
  columns(id: string): Promise<readonly string[]>;
  /** Returns false if the database itself refuses the value. */
  damage(id: string, column: string, value: unknown): Promise<boolean>;
}

type Open = (context: TestContext) => Promise<DamageableStore>;

async function mysqlDamageable(context: TestContext): Promise<DamageableStore> {
  const pool = poolOn(context, await newDatabase(context));
  const store = mysqlStore({ client: pool });
  await store.migrate();
  return {
    store,
    async columns() {
      const [rows] = await pool.query<RowDataPacket[]>("SHOW COLUMNS FROM nevertwice_records");
      return rows.map(({ Field }) => Field as string).filter((name) => name !== "id");
    },
    async damage(id, column, value) {
      const connection = await pool.getConnection();
      try {
        // Without strict mode the server converts and stores almost any value.
        await connection.query("SET SESSION sql_mode = ''");
        await connection.query("UPDATE nevertwice_records SET ?? = ? WHERE id = ?", [column, value, id]);
        return true;
      } catch {
        return false;
      } finally {
        connection.destroy();
      }
    },
  };
}

async function postgresDamageable(context: TestContext): Promise<DamageableStore> {
  const pool = poolOf(await createDatabase(sharedUrl(context, "postgres")));
  context.onTestFinished(() => pool.end());
  const store = postgresStore({ client: pool });
  await store.migrate();
  const { rows } = await pool.query<{ name: string; type: string }>(
    "SELECT column_name AS name, data_type AS type FROM information_schema.columns WHERE table_name = 'nevertwice_records'",
  );
  const types = new Map(rows.map(({ name, type }) => [name, type]));
  return {
    store,
    columns: async () => [...types.keys()].filter((name) => name !== "id"),
    async damage(id, column, value) {
      const set = `SET "${column}" = $1::text::${types.get(column)}`;
      try {
        await pool.query(`UPDATE nevertwice_records ${set} WHERE id = decode($2, 'hex')`, [value, id]);
        return true;
      } catch {
        return false;
      }
    },
  };
}

/** `file` returns the path of a new file, which the caller removes. */
export function sqliteDamageable(file: () => string, connect: ReturnType<typeof connectionsBeside>): Open {
  return async ({ onTestFinished }) => {
    const name = file();
    const store = sqliteStore({ file: name });
    onTestFinished(() => store.close());
    await store.read("warm");
    const database = connect(name);
    return {
      store,
      columns: async () =>
        (database.prepare("PRAGMA table_info(nevertwice_records)").all() as { name: string }[])
          .map((column) => column.name)
          .filter((column) => column !== "id"),
      async damage(id, column, value) {
        try {
          const update = database.prepare(`UPDATE nevertwice_records SET ${column} = ? WHERE id = ?`);
          update.run(value as string, Buffer.from(id, "hex"));
          return true;
        } catch {
          return false;
        }
      },
    };
  };
}

async function dynamodbDamageable(context: TestContext): Promise<DamageableStore> {
  const client = clientOf(sharedUrl(context, "dynamodb"));
  context.onTestFinished(() => client.destroy());
  const table = await newTable(client);
  return {
    store: dynamodbStore({ client, table }),
    async columns(id) {
      const { Item } = await client.send(new GetCommand({ TableName: table, Key: { id } }));
      return Object.keys(Item ?? {}).filter((name) => name !== "id");
    },
    async damage(id, column, value) {
      const what = value === null ? "REMOVE #column" : "SET #column = :value";
      await client.send(
        new UpdateCommand({
          TableName: table,
          Key: { id },
          UpdateExpression: what,
          ExpressionAttributeNames: { "#column": column },
          ...(value !== null && {
            ExpressionAttributeValues: { ":value": isHuge(value) ? BigInt(value) : value },
          }),
        }),
      );
      return true;
    },
  };
}

async function etcdDamageable(context: TestContext): Promise<DamageableStore> {
  const prefix = newPrefix();
  const [endpoint = ""] = endpointsIn(sharedUrl(context, "etcd"));
  const ask = async (path: string, body: object) => {
    const response = await fetch(`${endpoint}/v3/kv/${path}`, { method: "POST", body: JSON.stringify(body) });
    return (await response.json()) as { kvs?: { value: string }[] };
  };
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  /** The first line of the value, and the rest with the line break before it. */
  async function read(id: string): Promise<readonly [members: Record<string, unknown>, rest: string]> {
    const { kvs = [] } = await ask("range", { key: base64(`${prefix}/record/${id}`) });
    const value = Buffer.from(kvs[0]?.value ?? "", "base64").toString();
    const end = value.indexOf("\n");
    return [JSON.parse(value.slice(0, end)), value.slice(end)];
  }
  return {
    store: openEtcd(context, { prefix }),
    columns: async (id) => Object.keys((await read(id))[0]),
    async damage(id, column, value) {
      const [{ [column]: _, ...members }, rest] = await read(id);
      const damaged = value === null ? members : { ...members, [column]: value };
      await ask("put", {
        key: base64(`${prefix}/record/${id}`),
        value: base64(JSON.stringify(damaged) + rest),
      });
      return true;
    },
  };
}

function isHuge(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
}

export const DAMAGEABLE_STORES: Readonly<Record<string, Open>> = {
  MySQL: mysqlDamageable,
  DynamoDB: dynamodbDamageable,
  Postgres: postgresDamageable,
  etcd: etcdDamageable,
};
