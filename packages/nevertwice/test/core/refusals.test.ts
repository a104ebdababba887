/** Tests what a refusal reports about its call: the operation and hashes, never the key or the scope. */
import { hash } from "node:crypto";
import { inspect } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { isNevertwiceError, NevertwiceError } from "../../src/core/errors.ts";
import { protect, tryProtect } from "../../src/functions/protect.ts";
import { createGuard, type Guard, type RunRequest } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore, manualClock } from "../../src/testing/index.ts";

const SUBJECT = { operation: "charge", scope: "alice@example.com", key: "order-secret" };
const store = faultyStore(memoryStore());
const guard = createGuard({ store, purgeEveryMs: 0, onPending: "reject", storeTimeoutMs: 1_000 });
const { keyHash } = guard.about(SUBJECT);
const scopeHash = hash("sha256", SUBJECT.scope, "hex").slice(0, 16);

afterAll(async () => {
  await guard.close();
});

const never = () => {
  throw new Error("the work must not run");
};
const failed = (run: Promise<unknown>) => run.then(never, (error: unknown) => error);
const again = (more: Partial<RunRequest> = {}) => failed(guard.run({ ...SUBJECT, ...more }, never));

/** Each code, and how to make a guard refuse with it. */
const REFUSALS: Readonly<Record<string, (guard: Guard) => Promise<unknown>>> = {
  async pending() {
    const claim = await guard.claim(SUBJECT);
    const error = await again();
    if (claim.status === "claimed") await claim.release();
    return error;
  },
  async conflict() {
    await guard.run({ ...SUBJECT, fingerprint: 1 }, () => 1);
    return again({ fingerprint: 2 });
  },
  async "already-done"() {
    await guard.run(SUBJECT, () => 1);
    return again({ onCompleted: "reject" });
  },
  async unknown() {
    const cut = () => Promise.reject(new Error("cut off"));
    await guard.run({ ...SUBJECT, onFailure: "unknown", onLapsed: "hold" }, cut).catch(() => {});
    return again();
  },
  async "not-kept"() {
    await guard.run(SUBJECT, () => () => {});
    return again();
  },
  unavailable() {
    for (let i = 0; i < 3; i++) store.plan("claim", "refuse");
    return again();
  },
  async "store-full"() {
    const full = createGuard({ store: memoryStore({ maxRecords: 1 }), purgeEveryMs: 0 });
    await full.run({ ...SUBJECT, key: "order-1" }, () => 1);
    return failed(full.run(SUBJECT, never));
  },
  async "guard-closed"() {
    const closed = createGuard({ store, purgeEveryMs: 0 });
    await closed.close();
    return failed(closed.run(SUBJECT, never));
  },
  async "token-spent"() {
    const token = "a token that nobody guesses";
    await guard.mark({ ...SUBJECT, token });
    await guard.release(SUBJECT);
    return failed(guard.mark({ ...SUBJECT, token }));
  },
  "lease-lost"() {
    const clock = manualClock();
    const slow = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0 });
    const overtaken = slow.run(SUBJECT, async (attempt) => {
      clock.advance(60_000);
      await slow.run(SUBJECT, () => 1);
      await attempt.renew();
      return attempt.deriveKey("bank");
    });
    return failed(overtaken);
  },
};

describe("a refusal reports the operation, the key's hash and the scope's hash:", () => {
  test.each(Object.entries(REFUSALS))("%s", async (code, refuse) => {
    const error = await refuse(guard);
    expect(error).toMatchObject({ code, operation: "charge", keyHash, scopeHash });
    expect(inspect(error)).not.toMatch(/order-secret|alice/);
    const record = await guard.read(SUBJECT);
    if (record?.state === "lapsed")
      await guard.resolve({ ...SUBJECT, fence: record.fence }, { status: "not-done" });
    await guard.forget(SUBJECT);
    await guard.reopen(SUBJECT);
  });

  test("has no scope hash if the call has no scope", async () => {
    const { scope: _, ...subject } = SUBJECT;
    await guard.run(subject, () => 1);
    const error = await failed(guard.run({ ...subject, onCompleted: "reject" }, never));
    expect(error).toMatchObject({ operation: "charge", keyHash: guard.about(subject).keyHash });
    expect(isNevertwiceError(error) && "scopeHash" in error).toBe(false);
  });

  test("by protect, by a mark, and by a read that the store does not answer", async () => {
    const other = { ...SUBJECT, key: "order-2" };
    const claim = await guard.claim(other);
    const options = { ...other, key: () => other.key };
    const about = { code: "pending", operation: "charge", keyHash: guard.about(other).keyHash, scopeHash };
    expect(await failed(protect(guard, options, never))).toMatchObject(about);
    expect(await tryProtect(guard, options, never)).toMatchObject({ error: about });
    expect(await failed(guard.with({ waitMs: 0 }).mark(other))).toMatchObject(about);
    if (claim.status === "claimed") await claim.release();
    store.plan("read", "refuse");
    expect(await failed(guard.read(other))).toMatchObject({ ...about, code: "unavailable" });
    store.plan("complete", "refuse");
    const unconfirmed = await failed(guard.mark(other));
    expect(unconfirmed).toMatchObject({ ...about, code: "unavailable" });
  });

  test("by a lock, which reports if its own process holds it", async () => {
    const { scope } = SUBJECT;
    const lock = { operation: "nevertwice:exclusive", scope, key: "report" };
    const nested = () => guard.exclusive("report", never, { scope, waitMs: 0 });
    const error = await failed(guard.exclusive("report", nested, { scope }));
    const about = { operation: lock.operation, keyHash: guard.about(lock).keyHash, scopeHash };
    expect(error).toMatchObject({ ...about, code: "pending", leaseLeftMs: expect.any(Number) });
    expect((error as Error).message).toContain("it waits for itself");
  });

  test("gives each call its own error if the store refuses many calls with the same error", async () => {
    const full = new NevertwiceError("store-full", "no room.");
    const refusing = { ...memoryStore(), claim: () => Promise.reject(full) };
    const many = createGuard({ store: refusing, purgeEveryMs: 0 });
    const errors = await Promise.all(
      ["1", "2"].map((key) => failed(many.run({ operation: "charge", key }, never))),
    );
    expect(errors).toMatchObject(
      ["1", "2"].map((key) => ({
        code: "store-full",
        message: full.message,
        stack: full.stack,
        keyHash: many.about({ operation: "charge", key }).keyHash,
      })),
    );
    expect(full.keyHash).toBeUndefined();
  });

  test("results keep their shape: the subject is not added to them", async () => {
    await guard.run({ ...SUBJECT, key: "order-3" }, () => 1);
    const result = await guard.tryRun({ ...SUBJECT, key: "order-3", onCompleted: "reject" }, never);
    expect(result).toEqual({ status: "already-done" });
  });
});

test("an error has the fields that only its code has", async () => {
  const key = "order-4";
  await guard.run({ ...SUBJECT, key, fingerprint: 1 }, () => () => {});
  expect(await again({ key, fingerprint: 2 })).toMatchObject({ code: "conflict", state: "completed" });
  expect(await again({ key, fingerprint: 1 })).toMatchObject({ code: "not-kept", reason: "not-encodable" });
  const claim = await guard.claim({ ...SUBJECT, key: "order-5" });
  const pending = await again({ key: "order-5" });
  expect(isNevertwiceError(pending, "pending") && pending.leaseLeftMs).toBeGreaterThan(0);
  if (claim.status === "claimed") await claim.release();
});
