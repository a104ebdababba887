/** Tests guards when the store, the work or the process fails. */
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import { guardFromEnv } from "../../src/env/index.ts";
import { page } from "../documents.ts";
import { crash, createScene, failure } from "./guard-scene.ts";

const ORDER = { operation: "charge", key: "order-1" };
/** How long to wait for a store that does not answer. */
const storeTimeoutMs = 20;

test("Baldur: store down at claim: fail closed: the work is not run, and the caller gets unavailable", async () => {
  const { guard, store, events } = createScene({ storeTimeoutMs });
  store.setRates({ refuse: 1 });
  const charge = vi.fn(async () => "charged");
  await expect(guard.run(ORDER, charge)).rejects.toMatchObject({
    code: "unavailable",
    retryable: true,
    cause: expect.any(Error),
  });
  expect(charge).not.toHaveBeenCalled();
  expect(events).toContainEqual(expect.objectContaining({ kind: "unavailable", during: "claim" }));
});

test("Baldur: store down at claim: fail open: for the whole guard or for one call, and always reported", async () => {
  const { guard, store, events, another } = createScene({ storeTimeoutMs });
  store.setRates({ refuse: 1 });
  const ping = vi.fn(async () => "sent");
  expect(await guard.run({ ...ORDER, onUnavailable: "proceed" }, ping)).toBe("sent");
  expect(await guard.with({ onUnavailable: "proceed" }).run(ORDER, ping)).toBe("sent");
  await expect(guard.run(ORDER, ping)).rejects.toEqual(failure("unavailable"));
  expect(ping).toHaveBeenCalledTimes(2);
  expect(events.filter(({ kind }) => kind === "proceeded")).toHaveLength(2);
  expect(another({ onUnavailable: "proceed" }).policy.onUnavailable).toBe("proceed");
});

test("Baldur: store down after effect: serve + log: the caller gets its value, and the outcome is recorded later", async () => {
  const { guard, store, events, another } = createScene({ storeTimeoutMs, completeWaitMs: 5 });
  const result = await guard.tryRun(ORDER, async () => {
    store.setRates({ refuse: 1 });
    return "charged";
  });
  expect(result).toEqual({ status: "ran", value: "charged", recorded: false });
  expect(events).toContainEqual(expect.objectContaining({ kind: "unavailable", during: "complete" }));
  store.setRates({});
  expect(await another().run(ORDER, async () => "twice")).toBe("charged");
});

test("Baldur: panic/exception releases: any thrown value releases the key, thrown at once or later", async () => {
  const { guard } = createScene({ onPending: "reject" });
  const throwers = [
    () => {
      throw new TypeError("at once");
    },
    async () => {
      throw new Error("later");
    },
    () => Promise.reject("no error at all"),
    () => Promise.reject(undefined),
  ];
  for (const work of throwers) {
    await guard.run(ORDER, work).catch(() => {});
    expect((await guard.read(ORDER))?.state).toBe("released");
  }
  expect(await guard.run(ORDER, async ({ number }) => number)).toBe(5);
});

test("Baldur: production without shared store = config error: the start fails, and the message says what to set", async () => {
  const alone = { NODE_ENV: "production" };
  await expect(guardFromEnv(alone)).rejects.toMatchObject({
    code: "options-invalid",
    message: expect.stringContaining("NEVERTWICE_STORE_URL"),
  });
  await expect(guardFromEnv({ ...alone, NEVERTWICE_STORE_URL: "memory:" })).rejects.toEqual(
    failure("options-invalid"),
  );
  const developing = await guardFromEnv({ NODE_ENV: "development" });
  expect(await developing.run(ORDER, async () => "charged")).toBe("charged");
  await developing.close();
});

test("Baldur: explicit escape hatch for in-process mode: a local store in production, if the environment allows it", async () => {
  const guard = await guardFromEnv({ NODE_ENV: "production", NEVERTWICE_ALLOW_LOCAL: "true" });
  const charge = vi.fn(async () => "charged");
  for (const _ of [1, 2]) await guard.run(ORDER, charge);
  expect(charge).toHaveBeenCalledTimes(1);
  await guard.close();
});

test("Baldur: honest crash boundary documented: a crash after the effect lets it run again, with the same key for the provider", async () => {
  const scene = createScene();
  const sent: string[] = [];
  const charge = (attempt: { deriveKey(name: string): string }) => sent.push(attempt.deriveKey("psp"));
  await crash(scene, ORDER, charge);
  await scene.guard.run(ORDER, charge);
  expect(sent).toHaveLength(2);
  expect(sent[0]).toBe(sent[1]);
  expect(await page("docs/moving-from-baldur.md")).toContain(
    "A crash after the effect and before its outcome is recorded",
  );
});

test("Baldur: transactional outbox pointer: a message written in the effect's own transaction is sent once despite a crash", async () => {
  const scene = createScene();
  const database = new DatabaseSync(":memory:");
  onTestFinished(() => database.close());
  database.exec("CREATE TABLE charges (id TEXT PRIMARY KEY); CREATE TABLE outbox (id TEXT PRIMARY KEY)");
  const charge = vi.fn(({ deriveKey }: { deriveKey(name: string): string }) => {
    database.exec("BEGIN");
    const { changes } = database.prepare("INSERT OR IGNORE INTO charges VALUES (?)").run(deriveKey("charge"));
    if (changes === 1) database.prepare("INSERT INTO outbox VALUES (?)").run(deriveKey("message"));
    database.exec("COMMIT");
  });
  await crash(scene, ORDER, charge);
  await scene.guard.run(ORDER, charge);
  expect(charge).toHaveBeenCalledTimes(2);
  expect(database.prepare("SELECT count(*) AS sent FROM outbox").get()).toEqual({ sent: 1 });
  expect(await page("docs/moving-from-baldur.md")).toContain("outbox");
});
