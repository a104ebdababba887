/** The stores under test. Each test gets its own database, which is removed when the test ends. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { createConnection } from "mysql2/promise";
import pg from "pg";
import type { TestContext } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { type ServiceName, sharedUrl } from "../services/services.ts";
import { COLLECTS_ITSELF, NO_WATCH, SCANS, type Without } from "../stores/cases.ts";
import { clientOf, newTable } from "../stores/dynamodb/tables.ts";
import { open } from "./workers/open.js";

/** The parts of a test context that a subject needs. */
export type Scene = Pick<TestContext, "skip"> & { onTestFinished(end: () => unknown): void };

export interface Subject {
  readonly name: string;
  /** The shared server that the store needs. */
  readonly service?: ServiceName;
  /** Cases that this store cannot run, in addition to those that move its clock. */
  readonly without?: Without;
  /** The URL of an empty database, as `openStore` takes it. */
  readonly create: (scene: Scene) => Promise<string>;
}

export const SQLITE: Subject = {
  name: "SQLite",
  async create({ onTestFinished }) {
    const folder = await scratchFolder({ onTestFinished });
    return `sqlite:${join(folder, "records.db")}`;
  },
};

export const REDIS: Subject = {
  name: "Redis",
  service: "redis",
  without: { ...COLLECTS_ITSELF, ...SCANS },
  create: async (context) => `${sharedUrl(context, "redis")}?prefix=${freshName()}:`,
};

const REDIS_CLUSTER: Subject = {
  name: "Redis Cluster",
  service: "redisCluster",
  without: { ...COLLECTS_ITSELF, ...SCANS },
  async create(context) {
    const url = sharedUrl(context, "redisCluster").replace("redis:", "redis+cluster:");
    return `${url}?prefix=${freshName()}:`;
  },
};

export const POSTGRES: Subject = {
  name: "Postgres",
  service: "postgres",
  async create(context) {
    const server = sharedUrl(context, "postgres");
    const name = freshName();
    const ask = async (statement: string): Promise<void> => {
      const client = new pg.Client(server);
      await client.connect();
      await client.query(statement);
      await client.end();
    };
    await ask(`CREATE DATABASE ${name}`);
    context.onTestFinished(() => ask(`DROP DATABASE ${name} WITH (FORCE)`));
    return Object.assign(new URL(server), { pathname: `/${name}` }).href;
  },
};

export const MYSQL: Subject = {
  name: "MySQL",
  service: "mysql",
  without: NO_WATCH,
  async create(context) {
    const server = sharedUrl(context, "mysql");
    const name = freshName();
    const ask = async (statement: string): Promise<void> => {
      const connection = await createConnection(server);
      await connection.query(statement);
      await connection.end();
    };
    await ask(`CREATE DATABASE ${name}`);
    context.onTestFinished(() => ask(`DROP DATABASE ${name}`));
    return Object.assign(new URL(server), { pathname: `/${name}` }).href;
  },
};

const DYNAMODB: Subject = {
  name: "DynamoDB",
  service: "dynamodb",
  without: { ...NO_WATCH, ...SCANS },
  async create(scene) {
    const endpoint = sharedUrl(scene, "dynamodb");
    const client = clientOf(endpoint);
    const table = await newTable(client);
    client.destroy();
    return `dynamodb://eu-west-1/${table}?endpoint=${encodeURIComponent(endpoint)}`;
  },
};

export const SUBJECTS = [SQLITE, REDIS, POSTGRES] as const;
/** Each of their steps needs several round trips, so their trials are smaller. */
export const SLOWER_SUBJECTS = [REDIS_CLUSTER, MYSQL, DYNAMODB] as const;
export const EVERY_SUBJECT = [...SUBJECTS, ...SLOWER_SUBJECTS];

/** Opens the store in this process, and creates its tables if they are missing. The store is closed when the test ends. */
export async function openSubject(
  context: Scene,
  url: string,
  options?: { readonly migrate?: boolean },
): Promise<Store> {
  const store = await open(url, options);
  context.onTestFinished(() => store.close());
  return store;
}

function freshName(): string {
  return `scale_${randomBytes(6).toString("hex")}`;
}
