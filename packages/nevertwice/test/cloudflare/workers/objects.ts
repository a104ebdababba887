/** An object whose clock can be moved, and the calls of it that only tests make. */
import type { D1Database } from "nevertwice/stores/d1";
import { type DurableObjectNamespace, NevertwiceObject } from "nevertwice/stores/durable-objects";

class MovedClock {
  aheadMs = 0;
  now(): number {
    return Date.now() + this.aheadMs;
  }
}

export interface RowCount {
  read: number;
  written: number;
}

/** Counts the rows that Cloudflare bills. */
function countedStorage(storage: Storage, rows: RowCount): Storage {
  const { sql } = storage;
  return {
    transactionSync: (change) => storage.transactionSync(change),
    getAlarm: () => storage.getAlarm(),
    setAlarm: (at) => storage.setAlarm(at),
    sql: {
      get databaseSize() {
        return sql.databaseSize;
      },
      exec(query, ...values) {
        const cursor = sql.exec(query, ...values) as ReturnType<typeof sql.exec> & Record<string, number>;
        const found = [...cursor.raw()];
        rows.read += cursor.rowsRead ?? 0;
        rows.written += cursor.rowsWritten ?? 0;
        return { raw: () => found };
      },
    },
  };
}

type Parameters = ConstructorParameters<typeof NevertwiceObject>;
type Storage = Parameters[0]["storage"];

export class TestObject extends NevertwiceObject {
  readonly #clock: MovedClock;
  readonly #rows: RowCount;
  readonly #storage: Storage;

  constructor(state: Parameters[0], env: unknown, options: Parameters[2] = {}) {
    const clock = new MovedClock();
    const rows = { read: 0, written: 0 };
    super({ storage: countedStorage(state.storage, rows) }, env, { clock, ...options });
    this.#clock = clock;
    this.#rows = rows;
    this.#storage = state.storage;
  }

  override async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    switch (pathname) {
      case "/advance":
        this.#clock.aheadMs += Number(await request.text());
        return new Response();
      case "/inspect":
        return Response.json(await this.#inspect());
      case "/sql":
        this.#storage.sql.exec(await request.text()).raw();
        return new Response();
      case "/alarm":
        await this.alarm();
        return Response.json(await this.#inspect());
      case "/ring":
        await this.#storage.setAlarm(Date.now());
        return new Response();
      default:
        return super.fetch(request);
    }
  }

  async #inspect() {
    const [[rows]] = [...this.#storage.sql.exec("SELECT count(*) FROM nevertwice_records").raw()] as [
      [number],
    ];
    const alarm = await this.#storage.getAlarm();
    const bytes = this.#storage.sql.databaseSize;
    return { rows, bytes, billed: this.#rows, alarmInMs: alarm === null ? null : alarm - Date.now() };
  }
}

/** Holds few waiters, for a short time. */
export class ShortObject extends TestObject {
  constructor(state: Parameters[0], env: unknown) {
    super(state, env, { maxWaiters: 3, maxWaitMs: 500 });
  }
}

/** Holds few waiters, for a long time. */
export class PatientObject extends TestObject {
  constructor(state: Parameters[0], env: unknown) {
    super(state, env, { maxWaiters: 3, maxWaitMs: 300_000 });
  }
}

export interface Env {
  readonly NEVERTWICE: DurableObjectNamespace;
  readonly DB: D1Database;
}

/** The objects of one store. */
export interface ObjectGroup {
  readonly namespace: DurableObjectNamespace;
  readonly name: string;
  readonly shards: number;
}

export async function post(group: ObjectGroup, shard: number, path: string, body: string): Promise<string> {
  const { namespace, name } = group;
  const stub = namespace.get(namespace.idFromName(`${name}-${shard}`));
  const response = await stub.fetch(`https://test${path}`, { method: "POST", body });
  return response.text();
}

export async function advanceAll(group: ObjectGroup, ms: number): Promise<void> {
  for (let shard = 0; shard < group.shards; shard++) await post(group, shard, "/advance", String(ms));
}

/** Purges as the objects' alarms do, and says how much was removed. */
export async function purgeAll(group: ObjectGroup, limit: number) {
  const { shards } = group;
  let removed = 0;
  for (let shard = 0; shard < shards; shard++) {
    const call = ["purge", limit - removed];
    const message = { call, shard, shards, isConfirmed: true };
    const { reply } = JSON.parse(await post(group, shard, "/call", JSON.stringify(message)));
    removed += reply.answers[0][1];
  }
  return { removed, more: removed === limit };
}
