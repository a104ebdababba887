/** Tests what operators can see, set and switch off in a guard. */
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { compositeKey, type KeyPart } from "../../src/core/key.ts";
import { POLICY_DEFAULTS } from "../../src/core/policy.ts";
import { guardFromEnv, windowsFromEnv } from "../../src/env/index.ts";
import { idempotencyPolicy } from "../../src/http/policy-document.ts";
import { telemetry } from "../../src/telemetry/index.ts";
import { crash, createCounts, createScene, failure, held, REFUSE, tally } from "./guard-scene.ts";

const ORDER = { operation: "charge", key: "order-1" };

test("Baldur: duplicate event/metric distinct from filter: completed, pending, conflicting and failed calls are counted separately", async () => {
  const { meterProvider, counts } = createCounts();
  const { guard } = createScene({ ...REFUSE, observer: telemetry({ meterProvider }) });
  const { work, isUnderWay, finish } = held<string>();
  const meant = { ...ORDER, fingerprint: { amount: 1 } };
  const first = guard.run(meant, work);
  await isUnderWay;
  await guard.tryRun(meant, work);
  finish("charged");
  await first;
  await guard.tryRun(meant, work);
  await guard.tryRun({ ...meant, fingerprint: { amount: 2 } }, work);
  await guard.run({ ...ORDER, key: "order-2" }, () => Promise.reject(new Error("down"))).catch(() => {});
  const claims = { "claims new": 2, "claims pending": 1, "claims already-done": 1, "claims conflict": 1 };
  expect(await counts()).toMatchObject({ ...claims, "abandons released": 1 });
});

test("Baldur: decision, takeover, fallback counters: counts decisions, takeovers with their cause, and unguarded runs", async () => {
  const { meterProvider, counts } = createCounts();
  const scene = createScene({ ...REFUSE, observer: telemetry({ meterProvider }), storeTimeoutMs: 20 });
  const { guard, store } = scene;
  await guard.run(ORDER, () => Promise.reject(new Error("declined"))).catch(() => {});
  await crash(scene, ORDER);
  await guard.run(ORDER, async () => "charged");
  await guard.tryRun(ORDER, async () => "twice");
  store.setRates({ refuse: 1 });
  await guard.tryRun({ ...ORDER, key: "order-2" }, async () => "refused");
  await guard.run({ ...ORDER, key: "order-3", onUnavailable: "proceed" }, async () => "unguarded");
  const decisions = {
    "claims new": 2,
    "claims taken-over": 1,
    "claims already-done": 1,
    "claims unavailable": 2,
  };
  expect(await counts()).toMatchObject({
    ...decisions,
    "takeovers released": 1,
    "takeovers lapsed": 1,
    unguarded: 1,
  });
});

test("Baldur: structured logs: every decision is an object that fits a log line, with a hash and never the key", async () => {
  const lines: string[] = [];
  const { guard } = createScene({ ...REFUSE, observer: (event) => lines.push(JSON.stringify(event)) });
  const secret = { operation: "charge", key: "card 4242 4242 4242 4242", scope: "alice@example.com" };
  await guard.run(secret, async () => "the receipt");
  await guard.tryRun(secret, async () => "twice");
  const logged = lines.map((line) => JSON.parse(line));
  const about = { operation: "charge", keyHash: expect.stringMatching(/^[0-9a-f]+$/) };
  expect(logged).toMatchObject([
    { ...about, kind: "claimed", number: 1 },
    { ...about, kind: "completed", ranMs: expect.any(Number) },
    { ...about, kind: "replayed", refused: true },
  ]);
  expect(lines.join()).not.toMatch(/4242|alice|receipt/);
});

test("Baldur: metrics failure never breaks dedup: observers and meters that throw change nothing", async () => {
  const broken = vi.fn(() => {
    throw new Error("the metrics server is down");
  });
  const meter = new Proxy({}, { get: () => broken });
  const observers = [
    telemetry({ meter: meter as never, tracer: meter as never }),
    broken,
    () => Promise.reject(broken),
  ];
  const { guard, another } = createScene({ observer: observers });
  const charge = vi.fn(async () => "charged");
  expect([await guard.run(ORDER, charge), await another().run(ORDER, charge)]).toEqual([
    "charged",
    "charged",
  ]);
  expect(charge).toHaveBeenCalledTimes(1);
  expect(broken.mock.calls.length).toBeGreaterThan(3);
});

test("Baldur: introspection of policy: a guard returns its policy, and an HTTP layer publishes it", () => {
  const { guard } = createScene({ ...REFUSE, retentionMs: 1_800_000 });
  expect(guard.policy).toEqual({ ...POLICY_DEFAULTS, ...REFUSE, retentionMs: 1_800_000 });
  guard.retune({ leaseMs: 5_000 });
  expect(guard.policy.leaseMs).toBe(5_000);
  const published = idempotencyPolicy(guard, { scope: "anyone", required: true });
  expect(JSON.stringify(published)).toContain("PT30M");
});

test("Baldur: mass-concurrency test: a thousand calls with ten keys on ten guards run the work ten times", async () => {
  const { another } = createScene();
  const charge = vi.fn(async (key: string) => `charged ${key}`);
  const guards = Array.from({ length: 10 }, () => another());
  const calls = guards.flatMap((guard) =>
    Array.from({ length: 100 }, (_, index) => {
      const key = `order-${index % 10}`;
      return guard
        .tryRun({ operation: "charge", key }, () => charge(key))
        .then((result) => ({ key, ...result }));
    }),
  );
  const results = await Promise.all(calls);
  expect(tally(results)).toEqual({ ran: 10, replayed: 990 });
  for (const result of results) expect(result).toMatchObject({ value: `charged ${result.key}` });
  expect(charge).toHaveBeenCalledTimes(10);
});

test("Baldur: property tests on keys: two lists of parts make the same key only if they are the same list", () => {
  const text = fc.oneof(
    fc.string({ unit: fc.constantFrom("|", "\\", "#", "?", "~", "1", "n") }),
    fc.string(),
  );
  const number = fc.double({ noNaN: true, min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER });
  const part = fc.oneof(text, number, fc.integer(), fc.bigInt(), fc.boolean(), fc.constant(null));
  const isSame = (a: readonly KeyPart[], b: readonly KeyPart[]) =>
    a.length === b.length && a.every((value, index) => value === b[index]);
  const property = (parts: readonly KeyPart[], others: readonly KeyPart[]) => {
    const [first, second, ...rest] = parts;
    const lookalikes = [others, parts.map(String), [`${first}|${second}`, ...rest], [parts.join("|")]];
    for (const list of [parts, ...lookalikes])
      expect(compositeKey(...parts).text === compositeKey(...list).text).toBe(isSame(parts, list));
  };
  const lists = fc.array(part, { minLength: 2, maxLength: 4 });
  fc.assert(fc.property(lists, lists, property), { numRuns: 500 });
});

test("Baldur: master off switch: every call runs its work, and nothing is checked or remembered", async () => {
  const off = { NEVERTWICE_ENABLED: "false", NEVERTWICE_STORE_URL: "redis://nowhere.invalid:1" };
  const told: string[] = [];
  const guard = await guardFromEnv(off, { observer: ({ kind }) => told.push(kind) });
  const charge = vi.fn(async () => "charged");
  for (const _ of [1, 2]) expect(await guard.run(ORDER, charge)).toBe("charged");
  expect([charge.mock.calls.length, await guard.seen(ORDER), told.includes("proceeded")]).toEqual([
    2,
    false,
    true,
  ]);
  await expect(guard.run({ operation: "charge", key: "" }, charge)).rejects.toEqual(failure("key-missing"));
  await guard.close();
});

test("Baldur: environment variables: an operator sets store, windows and failure policy, and a misspelt name is refused", async () => {
  const env = {
    NEVERTWICE_STORE_URL: "memory:",
    NEVERTWICE_LEASE: "30m",
    NEVERTWICE_RETENTION: "1800s",
    NEVERTWICE_MARK_RETENTION: "5m",
    NEVERTWICE_ON_UNAVAILABLE: "proceed",
  };
  const guard = await guardFromEnv(env);
  const set = {
    leaseMs: 1_800_000,
    retentionMs: 1_800_000,
    markRetentionMs: 300_000,
    onUnavailable: "proceed",
  };
  expect(guard.policy).toMatchObject(set);
  guard.retune(windowsFromEnv({ ...env, NEVERTWICE_RETENTION: "1h" }));
  expect(guard.policy).toMatchObject({ ...set, retentionMs: 3_600_000 });
  await expect(guardFromEnv({ NEVERTWICE_RETENTOIN: "1h" })).rejects.toEqual(failure("options-invalid"));
  await guard.close();
});
