/** Tests how long an answer is replayed: for its whole retention and no longer, whether or not the store was purged or restarted. */
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../../src/stores/memory.ts";
import { sqliteStore } from "../../../src/stores/sqlite.ts";
import { scratchFolder } from "../../scratch-folder.ts";
import { REPLAYED } from "../replayed-header.ts";
import { gate, serve, virtualTime } from "./service.ts";

const WINDOW_MS = 3_600_000;
const options = { retentionMs: WINDOW_MS };

describe("a key", () => {
  test("EX-01 runs as a new key after its retention, without an error", async () => {
    const time = virtualTime();
    const service = await serve({ time, options });
    await service.send({ key: "k" });
    await time.advance(WINDOW_MS - 1);
    expect((await service.send({ key: "k" })).header(REPLAYED)).toBe("true");
    await time.advance(1);
    const repeated = await service.send({ key: "k" });
    expect([repeated.status, repeated.json().order, repeated.header(REPLAYED)]).toEqual([201, 2, undefined]);
    expect(service.runs()).toBe(2);
  });

  test("EX-02 may be used with another payload after its retention", async () => {
    const time = virtualTime();
    const service = await serve({ time, options });
    await service.send({ key: "k", body: { amount: 1 } });
    await time.advance(WINDOW_MS);
    expect((await service.send({ key: "k", body: { amount: 2 } })).status).toBe(201);
    expect(service.runs()).toBe(2);
  });

  test("EX-03 expires by the time in its record, whether or not the record was purged", async () => {
    const time = virtualTime();
    const store = memoryStore({ clock: time.clock });
    let numbers: number[] = [];
    const service = await serve({
      time,
      store,
      options,
      handler: ({ res, attempt }) => {
        numbers = [...numbers, attempt?.number ?? 0];
        res.end();
      },
    });
    await service.send({ key: "k" });
    await time.advance(WINDOW_MS);
    // Nothing has purged it: the record still exists, and counts as absent.
    expect(await service.guard.read({ operation: "POST /orders", key: "k" })).toBeUndefined();
    await service.send({ key: "k" });
    expect(numbers).toEqual([1, 1]);
    await service.send({ key: "other" });
    await time.advance(WINDOW_MS);
    expect(await store.purge(10)).toMatchObject({ removed: 2 });
  });

  test("EX-05 that expired is refused if the option expired says so, and nothing runs", async () => {
    const time = virtualTime();
    const service = await serve({
      time,
      options: { ...options, expired: "refuse", refuseMs: 10 * WINDOW_MS },
    });
    await service.send({ key: "k" });
    await time.advance(2 * WINDOW_MS);
    const late = await service.send({ key: "k" });
    expect([late.status, late.json().code, late.header("retry-after")]).toEqual([409, "expired", undefined]);
    expect(service.runs()).toBe(1);
    await time.advance(9 * WINDOW_MS);
    expect((await service.send({ key: "k" })).status).toBe(201);
    expect(service.runs()).toBe(2);
  });

  test("EX-06 is not kept longer because of replays", async () => {
    const time = virtualTime();
    const service = await serve({ time, options });
    await service.send({ key: "k" });
    for (let i = 0; i < 4; i++) {
      await time.advance(WINDOW_MS / 4 - (i === 3 ? 1 : 0));
      expect((await service.send({ key: "k" })).header(REPLAYED)).toBe("true");
    }
    await time.advance(1);
    await service.send({ key: "k" });
    expect(service.runs()).toBe(2);
  });

  test("EX-07 whose handler runs longer than the retention is not purged while it is claimed", async () => {
    const time = virtualTime();
    const store = memoryStore({ clock: time.clock });
    const door = gate();
    const service = await serve({
      time,
      store,
      options: { retentionMs: 1_000, leaseMs: 30_000 },
      handler: async ({ res }) => {
        await door.pass();
        res.end("done");
      },
    });
    const first = service.send({ key: "k" });
    await door.reached();
    await time.advance(60_000);
    expect(await store.purge(10)).toMatchObject({ removed: 0 });
    expect((await service.send({ key: "k" })).status).toBe(409);
    door.open();
    expect((await first).text).toBe("done");
    expect((await service.send({ key: "k" })).text).toBe("done");
    expect(service.runs()).toBe(1);
  });

  test("EX-08 is still replayed after the service and its store were closed and opened again", async () => {
    const folder = await scratchFolder();
    const open = async () => {
      const database = new DatabaseSync(join(folder, "records.db"));
      const store = sqliteStore({ database });
      return { ...(await serve({ store })), database };
    };
    const before = await open();
    const first = await before.send({ key: "k" });
    await before.close();
    await before.guard.close();
    await before.store.close();
    before.database.close();
    const after = await open();
    const again = await after.send({ key: "k" });
    expect([again.status, again.text, again.header(REPLAYED)]).toEqual([201, first.text, "true"]);
    expect([before.runs(), after.runs()]).toEqual([1, 0]);
    after.database.close();
  });

  test("EX-09 is replayed for one more minute after its retention, since clocks differ", async () => {
    const time = virtualTime();
    const service = await serve({ time, options: { ...options, expired: "refuse" } });
    await service.send({ key: "k" });
    await time.advance(WINDOW_MS + 59_999);
    expect((await service.send({ key: "k" })).header(REPLAYED)).toBe("true");
    await time.advance(1);
    expect((await service.send({ key: "k" })).json().code).toBe("expired");
    expect(service.runs()).toBe(1);
  });
});
