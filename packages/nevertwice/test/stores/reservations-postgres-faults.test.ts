/** Tests reservations on Postgres when backends are killed and replies are lost: all of a transaction, or nothing, and the truth. */
import type pg from "pg";
import postgres from "postgres";
import { describe, expect, onTestFinished, test } from "vitest";
import { type PostgresClient, postgresReservations } from "../../src/reservations/postgres.ts";
import { startPostgres } from "../services/postgres.ts";
import { type FaultProxy, startProxy } from "../services/proxy.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { createDatabase, poolOf, query, until } from "./postgres/database.ts";
import { holding, migrated, rowCounts, storeOn, untilWaiting } from "./postgres/reservations.ts";
import { asked, NAMESPACE, NOTHING, ONE_HOLD, RULES, toHold } from "./reservation-requests.ts";

function pooled(url: string): pg.Pool {
  const pool = poolOf(url);
  onTestFinished(() => pool.end());
  return pool;
}

function postgresJs(url: string): postgres.Sql {
  const sql = postgres(url, { max: 4, fetch_types: false, onnotice: () => {} });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return sql;
}

const CLIENTS: Readonly<Record<string, (url: string) => PostgresClient>> = {
  pg: pooled,
  "postgres.js": postgresJs,
};

/** `COMMIT` as each driver sends it the first time on a connection. */
const isCommit = (chunk: Buffer) => /commit\0/i.test(chunk.toString("latin1"));

async function proxied(url: string): Promise<FaultProxy> {
  const proxy = await startProxy(url);
  onTestFinished(() => proxy.stop());
  return proxy;
}

for (const [name, clientOf] of Object.entries(CLIENTS))
  describe(`under ${name}`, () => {
    test("a backend that is killed while it writes leaves no rows", async (context) => {
      const url = await migrated(context);
      const store = postgresReservations({ client: clientOf(url) });
      // Some drivers sometimes throw outside of the promise.
      for (let round = 0; round < 3; round++) {
        // Events cannot be written, but keys and resources are already locked.
        const letGo = await holding(url, "LOCK TABLE nevertwice_reservation_events IN SHARE MODE");
        const transacting = store.transact([toHold("room"), toHold("hall")], RULES);
        const failed = expect(transacting).rejects.toMatchObject({ name: "NotWritten" });
        const [pid] = await untilWaiting(url, 1);
        await query(url, `SELECT pg_terminate_backend(${pid})`);
        await failed;
        await letGo();
        expect(await rowCounts(url)).toEqual(NOTHING);
      }
      expect(await store.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);
      expect(await rowCounts(url)).toEqual(ONE_HOLD);
    });

    test("a COMMIT whose reply was lost returns the written answers", async (context) => {
      const url = await migrated(context);
      const proxy = await proxied(url);
      const store = postgresReservations({ client: clientOf(proxy.url) });
      proxy.cutReply(1, isCommit);
      const placed = toHold("room");
      expect(await store.transact([placed], RULES)).toEqual([{ ok: true, id: placed.newId }]);
      expect(await rowCounts(url)).toEqual(ONE_HOLD);
      expect(await store.transact([placed], RULES)).toEqual([{ ok: true, id: placed.newId }]);
    });

    test("a COMMIT that never arrived is reported as not written", async (context) => {
      const url = await migrated(context);
      const proxy = await proxied(url);
      const store = postgresReservations({ client: clientOf(proxy.url) });
      proxy.cutRequest(1, isCommit);
      const placed = toHold("room");
      await expect(store.transact([placed], RULES)).rejects.toMatchObject({ name: "NotWritten" });
      expect(await rowCounts(url)).toEqual(NOTHING);
      expect(await store.transact([placed], RULES)).toEqual([{ ok: true, id: placed.newId }]);
    });

    test("the store waits for a COMMIT that is still running when its connection is lost", async (context) => {
      const url = await migrated(context);
      await query(
        url,
        `CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.7); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON nevertwice_checkpoints DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION slowly()`,
      );
      const proxy = await proxied(url);
      const store = postgresReservations({ client: clientOf(proxy.url) });
      proxy.cutRequest(1, (chunk) => {
        if (isCommit(chunk)) setTimeout(() => proxy.cutAll(), 100);
        return false;
      });
      const placed = toHold("room");
      expect(await store.transact([placed], RULES)).toEqual([{ ok: true, id: placed.newId }]);
      expect(await rowCounts(url)).toEqual(ONE_HOLD);
    });

    test("if it cannot be known whether a transaction was committed, the error contains the decision", async (context) => {
      const url = await migrated(context);
      const proxy = await proxied(url);
      const store = postgresReservations({ client: clientOf(proxy.url) });
      proxy.cutReply(1, (chunk) => {
        if (isCommit(chunk)) proxy.refuse();
        return isCommit(chunk);
      });
      const placed = toHold("room");
      const answers = [{ ok: true, id: placed.newId }];
      await expect(store.transact([placed], RULES)).rejects.toMatchObject({ name: "MayBeWritten", answers });
      proxy.heal();
      expect(await store.transact([placed], RULES)).toEqual(answers);
      expect(await rowCounts(url)).toEqual(ONE_HOLD);
    });

    for (const side of ["cutRequest", "cutReply"] as const)
      test(`${side} on any statement before COMMIT writes nothing`, async (context) => {
        const url = await migrated(context);
        const proxy = await proxied(url);
        const store = postgresReservations({ client: clientOf(proxy.url) });
        await store.now();
        // Every case uses a new connection, so each statement is sent with its text.
        for (const part of [
          /begin .*read committed/i,
          /locked_keys AS/,
          /SELECT 'elapsed'/,
          /written_keys AS/,
        ]) {
          let isCut = false;
          proxy[side](1, (chunk) => {
            isCut ||= part.test(chunk.toString("latin1"));
            return isCut;
          });
          await expect(store.transact([toHold("room")], RULES)).rejects.toMatchObject({ name: "NotWritten" });
          expect(isCut).toBe(true);
          // The server may notice a lost connection late.
          await until(async () => (await rowCounts(url)).keys === 0);
          expect(await rowCounts(url)).toEqual(NOTHING);
        }
      });
  });

test("the answer of another transaction with the same key is never mistaken for a lost one", async (context) => {
  const url = await migrated(context);
  const proxy = await proxied(url);
  const [ours, theirs] = [postgresReservations({ client: pooled(proxy.url) }), storeOn(url)];
  // The COMMIT is lost in transit; meanwhile another client sends the same request, and it is written.
  const again = toHold("room", {}, "k");
  let other: Promise<unknown> | undefined;
  proxy.cutRequest(1, (chunk) => {
    if (!isCommit(chunk)) return false;
    other = theirs.transact([again], RULES);
    proxy.latency(300);
    return true;
  });
  await expect(ours.transact([toHold("room", {}, "k")], RULES)).rejects.toMatchObject({
    name: "NotWritten",
  });
  expect(await other).toEqual([{ ok: true, id: again.newId }]);
  expect(await ours.transact([toHold("room", {}, "k")], RULES)).toEqual([{ ok: true, id: again.newId }]);
  expect(await rowCounts(url)).toEqual(ONE_HOLD);
});

test("a server that was killed and restarted has everything that it acknowledged", async (context) => {
  const server = await startFor(context, () => startPostgres());
  const store = postgresReservations({ client: pooled(server.url) });
  await store.migrate();
  const ids: string[] = [];
  let isKilled = false;
  const placing = Array.from({ length: 4 }, async (_, worker) => {
    for (let i = 0; !isKilled; i++) {
      const group = Array.from({ length: 8 }, (_, seat) => toHold(`seat-${worker}-${i}-${seat}`));
      const answers = await store.transact(group, RULES).catch(() => []);
      for (const answer of answers) if ("id" in answer) ids.push(answer.id);
    }
  });
  await until(() => ids.length > 200, 15_000);
  isKilled = true;
  await server.kill();
  await Promise.all(placing);
  await server.restart();
  const found = await Promise.all(ids.map((id) => store.get(NAMESPACE, id)));
  expect(found.filter(({ commitment }) => commitment?.state === "held")).toHaveLength(ids.length);
});

test("without tables the error says what to do, and after migrate() the store works", async (context) => {
  const store = storeOn(await createDatabase(sharedUrl(context, "postgres")));
  await expect(store.transact([toHold("room")], RULES)).rejects.toMatchObject({
    name: "NotWritten",
    cause: { code: "store-unsafe", message: expect.stringContaining("migrate()") },
  });
  await Promise.all([store.migrate(), store.migrate(), store.migrate()]);
  expect(await store.transact([toHold("room")], RULES)).toMatchObject([{ ok: true }]);
  await store.migrate();
  expect(await store.transact([asked("confirm", { id: "nothing" })], RULES)).toMatchObject([{ ok: false }]);
});

test("the doctor reports an UNLOGGED table", async (context) => {
  const url = await migrated(context);
  const store = storeOn(url);
  expect((await store.settings?.())?.survives["store-crash"].survives).toBe("yes");
  await query(url, "ALTER TABLE nevertwice_checkpoints SET UNLOGGED");
  expect((await store.settings?.())?.survives["store-crash"]).toEqual({
    survives: "no",
    because: "nevertwice_checkpoints is UNLOGGED: a crash empties it",
    raise: "ALTER TABLE nevertwice_checkpoints SET LOGGED",
  });
});

test("invalid options are rejected by name", () => {
  const client = pooled("postgres://localhost/nowhere");
  expect(() => postgresReservations({ client: {} as PostgresClient })).toThrow(/client must be a pg Pool/);
  expect(() => postgresReservations({ client, scheme: "x" } as never)).toThrow(/scheme/);
  expect(() => postgresReservations({ client, schema: "a.b" })).toThrow(/schema is "a.b"/);
});
