/** Tests that an owner can be moved to another region: no key is lost, none runs twice, and every interrupted move continues. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGuard, type Store } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { openStore } from "nevertwice/stores/open";
import { afterAll, describe, expect, test } from "vitest";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import { createHomeMapLog } from "../src/regions/home-map-log.ts";
import { createHomeMapLogs } from "../src/regions/home-map-logs.ts";
import { moveScope, thawScope } from "../src/regions/scope-move.ts";
import { runHere } from "./cli-in-process.ts";
import { gate } from "./gateway/stage.ts";
import { EVERYONE_IN_EU, type Regions, type RegionsOptions, startRegions } from "./regions/stage.ts";

const ACME = { "x-tenant": "acme" };
const SCOPE = "header:x-tenant:s:acme";
const FOLDER = mkdtempSync(join(tmpdir(), "nevertwice-regions-"));
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

async function regionsOf(options?: RegionsOptions) {
  const regions = await startRegions(options);
  const { logs, stores } = regions;
  const move = (to: string, waitMs = 60_000) =>
    moveScope({ logs, stores, namespace: "default", scope: SCOPE, to, waitMs });
  const send = (region: "eu" | "us", key: string) => regions.gateways[region].send({ key, headers: ACME });
  return { ...regions, move, send };
}

/** Sends until the gateway has seen the newest map. */
async function answered(regions: Pick<Regions, "gateways">, region: "eu" | "us", key: string) {
  let answer = await regions.gateways[region].send({ key, headers: ACME });
  await expect
    .poll(async () => {
      if (answer.status === 503) answer = await regions.gateways[region].send({ key, headers: ACME });
      return answer.status;
    })
    .not.toBe(503);
  return answer;
}

const subjectOf = (key: string) => ({ scope: SCOPE, operation: "POST /orders", key });

function guardOn(stores: ReadonlyMap<string, Store>, region: string) {
  return createGuard({ store: stores.get(region) as Store, namespace: "default", purgeEveryMs: 0 });
}

describe("a move", () => {
  test("takes the records along: old keys are replayed in both regions, new ones run at the new home", async () => {
    const regions = await regionsOf();
    const { send, move, effects } = regions;
    for (const key of ["a", "b", "c"]) await send("us", key);
    expect(await move("us")).toEqual({ from: "eu", to: "us", version: 3, copied: 3, alreadyThere: 0 });
    for (const region of ["eu", "us"] as const)
      for (const key of ["a", "b", "c"]) {
        const again = await answered(regions, region, key);
        expect([again.status, again.headers[REPLAYED]]).toEqual([201, "true"]);
      }
    expect(effects.map(({ region }) => region)).toEqual(["eu", "eu", "eu"]);
    expect((await answered(regions, "eu", "d")).status).toBe(201);
    expect(effects.at(-1)?.region).toBe("us");
  });

  test("leaves other owners where they are", async () => {
    const regions = await regionsOf();
    await regions.move("us");
    const headers = { "x-tenant": "umbrella" };
    await expect.poll(async () => (await regions.gateways.us.send({ key: "a", headers })).status).toBe(201);
    expect(regions.effects.map(({ region }) => region)).toEqual(["eu"]);
  });

  test("waits for a request that runs, and takes its answer along", async () => {
    const asked = gate();
    const opened = gate();
    const onRequest = async () => {
      asked.resolve();
      await opened.promise;
    };
    const regions = await regionsOf({ onRequest });
    const first = regions.send("us", "a");
    await asked.promise;
    const moving = regions.move("us");
    await expect.poll(async () => (await regions.send("us", "b")).code?.()).toBe("unavailable");
    opened.resolve();
    expect((await first).status).toBe(201);
    expect((await moving).copied).toBeGreaterThan(0);
    const again = await answered(regions, "us", "a");
    expect([again.status, again.headers[REPLAYED]]).toEqual([201, "true"]);
    expect(regions.effects.map(({ region }) => region)).toEqual(["eu"]);
  });

  test("gives up waiting, and no region runs the owner until the move is repeated or given up", async () => {
    const asked = gate();
    const opened = gate();
    const onRequest = async () => {
      asked.resolve();
      await opened.promise;
    };
    const regions = await regionsOf({ onRequest });
    const { logs } = regions;
    const first = regions.send("eu", "a");
    await asked.promise;
    await expect(regions.move("us", 0)).rejects.toThrow("1 requests still run at the old home");
    await expect.poll(async () => (await regions.send("eu", "b")).status).toBe(503);
    opened.resolve();
    await first;
    expect(await thawScope({ logs, scope: SCOPE })).toEqual({ region: "eu", version: 3 });
    expect((await answered(regions, "us", "b")).status).toBe(201);
    expect(regions.effects.map(({ region }) => region)).toEqual(["eu", "eu"]);
    expect((await regions.move("us")).copied).toBe(2);
  });

  test("is refused while the outcome of a key is unknown", async () => {
    const regions = await regionsOf();
    const guard = guardOn(regions.stores, "eu");
    await guard
      .with({ onFailure: "unknown", onLapsed: "hold" })
      .run(subjectOf("a"), () => Promise.reject(new Error("lost")))
      .catch(() => {});
    await expect(regions.move("us")).rejects.toThrow("the outcome of 1 keys is unknown");
    const [record] = (await guard.listUnknown({ scope: SCOPE })).records;
    await guard.resolve({ ...subjectOf("a"), fence: record?.fence as number }, { status: "not-done" });
    expect((await regions.move("us")).copied).toBe(1);
    await guard.close();
  });

  test("keeps the order of fences, so the service recognises an attempt at the old home as older", async () => {
    let lagMs = 3_600_000;
    const us = memoryStore({ clock: { now: () => Date.now() - lagMs } });
    // The clock of us has caught up when the copy is tried again.
    const abandon: typeof us.abandon = (request) => {
      lagMs = 0;
      return us.abandon(request);
    };
    const { stores, move } = await regionsOf({ stores: { eu: memoryStore(), us: { ...us, abandon } } });
    const [old, next] = [guardOn(stores, "eu"), guardOn(stores, "us")];
    await old.run(subjectOf("a"), () => Promise.reject(new Error("no"))).catch(() => {});
    const before = (await old.read(subjectOf("a")))?.fence as number;
    await move("us");
    const copy = await next.read(subjectOf("a"));
    expect([copy?.state, (copy?.fence as number) > before]).toEqual(["released", true]);
    await Promise.all([old.close(), next.close()]);
  });

  test("to and fro takes along what happened in between", async () => {
    const { stores, move, effects, ...regions } = await regionsOf();
    await regions.send("eu", "a");
    await move("us");
    const us = guardOn(stores, "us");
    await us.reopen({ ...subjectOf("a") });
    expect((await move("eu")).copied).toBe(1);
    // Reopened at its new home: the work is to be done again, although the old home has its answer.
    const again = await answered({ ...regions }, "eu", "a");
    expect([again.status, again.headers[REPLAYED]]).toEqual([201, undefined]);
    expect(effects.map(({ region }) => region)).toEqual(["eu", "eu"]);
    await us.close();
  });

  test.each([1, 2, 3, 4, 5, 6])("continues after it was interrupted at write %i", async (failing) => {
    const regions = await regionsOf();
    for (const key of ["a", "b"]) await regions.send("eu", key);
    let writes = 0;
    const failed = async () => {
      if (++writes === failing) throw new Error("the connection to the store broke");
    };
    const breaking = (store: Store): Store => ({
      ...store,
      claim: async (request) => {
        await failed();
        return store.claim(request);
      },
      complete: async (request) => {
        await failed();
        return store.complete(request);
      },
    });
    const broken = new Map([...regions.stores].map(([name, store]) => [name, breaking(store)] as const));
    const logs = createHomeMapLogs(broken);
    const options = { namespace: "default", scope: SCOPE, to: "us", waitMs: 1_000 };
    await moveScope({ ...options, logs, stores: broken }).catch(() => {});
    await logs.close();
    if ((await regions.logs.newest())?.homes[SCOPE] !== "us") await regions.move("us");
    for (const key of ["a", "b"]) expect((await answered(regions, "us", key)).headers[REPLAYED]).toBe("true");
    expect(regions.effects).toHaveLength(2);
  });
});

describe("the home map", () => {
  test("has one writer for each version, and the other one is told", async () => {
    const stores = new Map<string, Store>([
      ["us", memoryStore()],
      ["eu", memoryStore()],
    ]);
    const [one, other] = [createHomeMapLogs(stores), createHomeMapLogs(stores)];
    await one.publish(EVERYONE_IN_EU);
    const next = (home: string) => ({ ...EVERYONE_IN_EU, version: 2, homes: { [SCOPE]: home } });
    await one.publish(next("us"));
    await expect(other.publish(next("asia"))).rejects.toMatchObject({ code: "concurrent-modification" });
    expect((await other.newest())?.homes).toEqual({ [SCOPE]: "us" });
    await Promise.all([one.close(), other.close()]);
  });

  test("is found among any number of versions", async () => {
    const store = memoryStore();
    const log = createHomeMapLog(store);
    expect(await log.newest()).toBeUndefined();
    for (let version = 1; version <= 40; version++) {
      await log.publish({ ...EVERYONE_IN_EU, version });
      expect((await createHomeMapLog(store).newest())?.version).toBe(version);
    }
    await log.close();
  });

  test("that a store has damaged is refused, not read as another one", async () => {
    const store = memoryStore();
    const log = createHomeMapLog(store);
    await expect(log.publish({ ...EVERYONE_IN_EU, default: "no region" })).rejects.toThrow(
      "version 1 of the home map cannot be read",
    );
    await expect(log.newest()).rejects.toMatchObject({ code: "unavailable" });
    await log.close();
  });
});

describe("nevertwice regions", () => {
  test("publishes a map, shows it, moves an owner and gives a move up", async () => {
    const urls = ["eu", "us"].map((name) => `sqlite:${join(FOLDER, `${name}.db`)}`);
    for (const url of urls) {
      const store = await openStore(url);
      await store.read("0".repeat(64));
      await store.close();
    }
    const stores = urls.flatMap((url, index) => ["--region-store", `${["eu", "us"][index]}=${url}`]);
    const run = (...words: readonly string[]) => runHere("regions", ...words, ...stores);
    expect((await run("show")).err.join()).toContain("there is no home map");
    expect((await run("init", "--default", "eu")).out).toEqual(["version 1: the home is eu"]);
    expect((await run("init", "--default", "us")).code).toBe(1);
    const moved = await run("move", "--scope", SCOPE, "--to", "us");
    expect(moved.out).toEqual([
      "0 records copied, 0 were there",
      `moved ${SCOPE} from eu to us, in version 3 of the home map`,
    ]);
    expect((await run("show")).out).toEqual([
      "version 3: the home is eu, except for",
      expect.stringMatching(/^scope +home/),
      expect.stringMatching(/^header:x-tenant:s:acme +us/),
    ]);
    expect((await run("thaw", "--scope", SCOPE)).err.join()).toContain("is not being moved");
    expect((await runHere("regions", "show", "--region-store", "eu")).code).toBe(2);
  });
});
