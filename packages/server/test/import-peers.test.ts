/**
 * Tests `nevertwice import` on stores that the other libraries filled themselves: after it, every duplicate of every key is
 * recognised and gets the outcome of the first call. At full size, each library makes a hundred thousand keys.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createGuard, type Guard } from "nevertwice";
import { withIdempotency } from "nevertwice/http/fetch";
import { openStore } from "nevertwice/stores/open";
import { describe, expect, it, type TestContext } from "vitest";
import { count, reportOn } from "../../nevertwice/test/scale/figures.ts";
import { IS_FULL, sizeOf } from "../../nevertwice/test/scale/sizes.ts";
import { type ServiceName, sharedUrl } from "../../nevertwice/test/services/services.ts";
import { ended, FOLDER, start, startWith } from "./cli-process.ts";
import {
  AWS,
  type FilledStore,
  nodeIdempotencyInRedis,
  powertoolsInDynamodb,
  powertoolsInRedis,
  receiptFor,
  steadykeyInMysql,
  steadykeyInPostgres,
  steadykeyInRedis,
  steadykeyInSqlite,
  TTL_SECONDS,
  unique,
} from "./import/peers.ts";

const { keys: KEYS } = sizeOf("import");
/** Enough pages that an import is killed before the last one. */
const KILLED_KEYS = Math.max(KEYS, 6_000);
/** A busy machine may take this long to answer; the test is about the answer. */
const PATIENCE_MS = 120_000;
/** How many duplicates are sent at once. */
const AT_ONCE = 50;
const TIMEOUT_MS = IS_FULL ? 3_600_000 : 300_000;

interface Subject {
  readonly title: string;
  fill(context: TestContext): Promise<FilledStore>;
  /** The store into which the keys are imported. */
  target(context: TestContext): string;
  /** Sends one duplicate. Resolves with what it got, or throws if the work ran. */
  duplicate(guard: Guard, operation: string, key: string): Promise<unknown>;
}

const fromUrl =
  (name: ServiceName, fill: (url: string, keys: number) => Promise<FilledStore>) => (context: TestContext) =>
    fill(sharedUrl(context, name), KEYS);
const newFile = () => `sqlite:${join(FOLDER, `${unique()}.db`)}`;

/** The key of a call as Powertools makes it from its payload. */
const powertoolsHash = (payload: unknown) =>
  createHash("md5").update(JSON.stringify(payload)).digest("base64");

async function callAgain(guard: Guard, operation: string, key: string): Promise<unknown> {
  const result = await guard.tryRun({ operation, key }, () => Promise.reject(new Error(`${key} ran again`)));
  if (result.status !== "replayed") throw new Error(`${key}: ${result.status}`);
  return result.value;
}

async function requestAgain(guard: Guard, _operation: string, key: string): Promise<unknown> {
  const refuse = async () => {
    throw new Error(`${key} ran again`);
  };
  const handler = withIdempotency(guard, { scope: "anyone" }, refuse);
  const response = await handler(
    new Request("http://shop.test/payments?verbose=1", {
      method: "POST",
      headers: { "idempotency-key": key, "content-type": "application/json" },
      body: JSON.stringify({ order: key }),
    }),
  );
  expect(response.status).toBe(201);
  expect(response.headers.get("idempotent-replayed")).toBe("true");
  expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  return response.json();
}

const SUBJECTS: readonly Subject[] = [
  {
    title: "steadykey on SQLite",
    fill: () => steadykeyInSqlite(join(FOLDER, `steadykey-${unique()}.db`), KEYS),
    target: newFile,
    duplicate: callAgain,
  },
  {
    title: "steadykey on Postgres",
    fill: fromUrl("postgres", steadykeyInPostgres),
    target: (context) => sharedUrl(context, "postgres"),
    duplicate: callAgain,
  },
  {
    title: "steadykey on MariaDB",
    fill: fromUrl("mysql", steadykeyInMysql),
    target: newFile,
    duplicate: callAgain,
  },
  {
    title: "steadykey on Redis",
    fill: fromUrl("redis", steadykeyInRedis),
    target: newFile,
    duplicate: callAgain,
  },
  {
    title: "node-idempotency on Redis",
    fill: fromUrl("redis", nodeIdempotencyInRedis),
    target: (context) => sharedUrl(context, "redis"),
    duplicate: requestAgain,
  },
  {
    title: "Powertools on DynamoDB",
    fill: fromUrl("dynamodb", powertoolsInDynamodb),
    target: newFile,
    duplicate: (guard, operation, key) => callAgain(guard, operation, powertoolsHash(key)),
  },
  {
    title: "Powertools on Redis",
    fill: fromUrl("redis", powertoolsInRedis),
    target: newFile,
    duplicate: (guard, operation, key) => callAgain(guard, operation, powertoolsHash(key)),
  },
];

async function importKeys(words: readonly string[]): Promise<Record<string, unknown>> {
  const { out, err } = await ended(startWith(AWS, "import", ...words, "--json"), "");
  const { data, ...rest } = JSON.parse(out.join("\n") || "{}");
  if (data === undefined) throw new Error(JSON.stringify({ rest, err }));
  return { ...data, exit: rest.exit };
}

/** How many keys the import had read when it saved its position; 0 without a file. */
function readPosition(checkpoint: string): number {
  return existsSync(checkpoint) ? JSON.parse(readFileSync(checkpoint, "utf8")).counts.read : 0;
}

const NOTHING = { different: 0, busy: 0, unfinished: 0, expired: 0, refused: 0, stopped: false };

describe("nevertwice import", { timeout: TIMEOUT_MS, concurrent: !IS_FULL }, () => {
  it.for(SUBJECTS)("takes over every key of $title", async (subject, context) => {
    const filled = await subject.fill(context);
    const namespace = `imported-${unique()}`;
    const target = subject.target(context);
    const words = [...filled.words, "--store", target, "--namespace", namespace];
    expect(await importKeys([...words, "--dry-run"])).toMatchObject({
      ...NOTHING,
      imported: KEYS,
      dryRun: true,
      exit: 0,
    });
    const startedAt = performance.now();
    expect(await importKeys(words)).toMatchObject({ ...NOTHING, imported: KEYS, alreadyThere: 0, exit: 0 });
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(await importKeys(words)).toMatchObject({ ...NOTHING, imported: 0, alreadyThere: KEYS, exit: 0 });

    const store = await openStore(target);
    const guard = createGuard({ store, namespace, storeTimeoutMs: PATIENCE_MS });
    context.onTestFinished(async () => {
      await guard.close();
      await store.close();
    });
    let recognised = 0;
    for (let from = 0; from < KEYS; from += AT_ONCE)
      await Promise.all(
        filled.keys.slice(from, from + AT_ONCE).map(async (key) => {
          expect(await subject.duplicate(guard, filled.operation, key)).toEqual(receiptFor(key));
          recognised += 1;
        }),
      );
    expect(recognised).toBe(KEYS);
    await expect(subject.duplicate(guard, filled.operation, "order-of-nobody")).rejects.toThrow(/ran again/);
    const { records } = await guard.list({ limit: 50 });
    const untilSeconds = records
      .filter(({ state }) => state === "completed")
      .map(({ keptUntil }) => (keptUntil - Date.now()) / 1_000);
    expect(Math.max(...untilSeconds)).toBeLessThanOrEqual(TTL_SECONDS + 1);
    expect(Math.min(...untilSeconds)).toBeGreaterThan(TTL_SECONDS - TIMEOUT_MS / 1_000);
    reportOn(subject.title, {
      trial: "Keys of other libraries, imported",
      figures: `${count(KEYS)} keys imported in ${seconds.toFixed(1)} s, ${count(recognised)} duplicates recognised with their outcome, none of them ran`,
    });
  });

  it("continues after kill -9, and recognises every key", async (context) => {
    const keys = Array.from({ length: KILLED_KEYS }, (_, index) => `order-${index}`);
    const [file, checkpoint, target] = [
      ...["csv", "checkpoint"].map((ending) => join(FOLDER, `${unique()}.${ending}`)),
      newFile(),
    ] as [string, string, string];
    writeFileSync(
      file,
      ["key,outcome", ...keys.map((key) => `${key},"""receipt of ${key}"""`), ""].join("\n"),
    );
    const words = [
      file,
      "--from",
      "csv",
      "--operation",
      "charge",
      "--store",
      target,
      "--checkpoint",
      checkpoint,
    ];
    const kills = IS_FULL ? 10 : 2;
    let lastRead = 0;
    for (let killed = 0; killed < kills; killed++) {
      const child = start("import", ...words, "--json");
      const ending = ended(child, "");
      // The next page has begun when the position of the last one is in the file.
      await context.expect
        .poll(() => readPosition(checkpoint), { interval: 1, timeout: PATIENCE_MS })
        .toBeGreaterThan(lastRead);
      child.kill("SIGKILL");
      expect((await ending).code).toBeNull();
      lastRead = readPosition(checkpoint);
      expect(lastRead).toBeLessThan(KILLED_KEYS);
    }
    const last = await importKeys(words);
    // The killed page had begun: its keys are there already, or were claimed by the killed process and are completed now.
    expect(last).toMatchObject({ ...NOTHING, read: KILLED_KEYS, exit: 0 });
    expect(existsSync(checkpoint)).toBe(false);
    const store = await openStore(target);
    const guard = createGuard({ store, namespace: "default", storeTimeoutMs: PATIENCE_MS });
    context.onTestFinished(async () => {
      await guard.close();
      await store.close();
    });
    for (let from = 0; from < KILLED_KEYS; from += AT_ONCE)
      await Promise.all(
        keys.slice(from, from + AT_ONCE).map(async (key) => {
          expect(await callAgain(guard, "charge", key)).toBe(`receipt of ${key}`);
        }),
      );
    reportOn("a CSV file into SQLite", {
      trial: "An import that is killed",
      figures: `killed ${count(kills)} times with SIGKILL while it imported ${count(KILLED_KEYS)} keys, each time continued at its checkpoint, and ${count(KILLED_KEYS)} duplicates recognised`,
    });
  });
});
