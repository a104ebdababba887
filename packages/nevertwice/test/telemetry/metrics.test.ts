/** Tests a guard's metrics as OpenTelemetry's SDK exports them. */
import { metrics } from "@opentelemetry/api";
import { DataPointType } from "@opentelemetry/sdk-metrics";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { protect } from "../../src/functions/protect.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type TelemetryOptions, telemetry } from "../../src/telemetry/index.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { createScene, lapse } from "../core/scene.ts";
import { createMetricsSdk, type MetricsSdk } from "./sdk.ts";

const request = { operation: "charge", key: "secret-key-4711" };

let sdk: MetricsSdk;
beforeEach(() => {
  sdk = createMetricsSdk();
});
afterEach(() => metrics.disable());

/** A guard in virtual time, observed by telemetry. */
function watched(options: Parameters<typeof createScene>[0] = {}, more: TelemetryOptions = {}) {
  return createScene({ observer: telemetry({ meterProvider: sdk.meterProvider, ...more }), ...options });
}

const fail = () => Promise.reject(new RangeError("no"));

describe("claims", () => {
  test("are counted by their answer", async () => {
    const scene = watched({ storeTimeoutMs: 100 });
    await scene.guard.run(request, () => 1);
    await scene.guard.run(request, () => 1);
    await scene.guard.run(request, () => 1);
    await scene.guard.tryRun({ ...request, onCompleted: "reject" }, () => 1);
    await scene.guard.run({ ...request, key: "b", fingerprint: 1 }, () => 1);
    await scene.guard.tryRun({ ...request, key: "b", fingerprint: 2 }, () => 1);
    const owner = scene.guard.run({ ...request, key: "c" }, () => scene.sleep(50));
    await scene.advance(1);
    await scene.guard.tryRun({ ...request, key: "c", onPending: "reject" }, () => 1);
    await scene.settle(owner);
    expect(await sdk.counts("nevertwice.claims")).toEqual({
      "answer=new, operation=charge": 3,
      "answer=replayed, operation=charge": 2,
      "answer=already-done, operation=charge": 1,
      "answer=conflict, operation=charge": 1,
      "answer=pending, operation=charge": 1,
    });
  });

  test("on a held key count as unknown, or as a takeover where that is allowed", async () => {
    const scene = watched({ observer: () => {} });
    const observer = telemetry({ meterProvider: sdk.meterProvider });
    await lapse(scene, request);
    await scene.another({ observer, onLapsed: "hold" }).tryRun(request, () => 1);
    expect(await sdk.counts("nevertwice.claims")).toEqual({ "answer=unknown, operation=charge": 1 });
    await scene.another({ observer }).tryRun(request, () => 1);
    expect(await sdk.counts("nevertwice.claims")).toEqual({
      "answer=unknown, operation=charge": 1,
      "answer=taken-over, operation=charge": 1,
    });
  });

  test("that reconcile settles do not count as unknown", async () => {
    const scene = watched({ observer: () => {} });
    const observer = telemetry({ meterProvider: sdk.meterProvider });
    await lapse(scene, request);
    const reconcile = async () => ({ status: "done", value: "found" }) as const;
    const guard = scene.another({ observer, onLapsed: "hold", reconcile });
    expect(await guard.run(request, () => "ran")).toBe("found");
    expect(await sdk.counts("nevertwice.claims")).toEqual({ "answer=replayed, operation=charge": 1 });
  });

  test("that take over a lapsed key and a released key are counted separately", async () => {
    const scene = watched();
    await scene.guard.run(request, fail).catch(() => {});
    await scene.guard.run(request, () => 1);
    await lapse(scene, { ...request, key: "b" });
    await scene.guard.run({ ...request, key: "b" }, () => 1);
    expect(await sdk.counts("nevertwice.takeovers")).toEqual({
      "cause=released, operation=charge": 1,
      "cause=lapsed, operation=charge": 1,
    });
    expect(await sdk.counts("nevertwice.abandons")).toEqual({
      "as=released, operation=charge": 1,
      "as=unknown, operation=charge": 1,
    });
  });
});

describe("durations", () => {
  test("of waits and of work are in seconds, by operation", async () => {
    const scene = watched();
    const owner = scene.guard.run(request, () => scene.sleep(50));
    await scene.advance(1);
    await scene.settle(scene.another().run(request, () => 2));
    await owner;
    expect(await sdk.counts("nevertwice.waits")).toEqual({ "operation=charge": 1 });
    expect(await sdk.durations("nevertwice.wait.duration")).toEqual({
      "operation=charge": { count: 1, sum: 0.049 },
    });
    expect(await sdk.durations("nevertwice.work.duration")).toEqual({
      "operation=charge": { count: 1, sum: 0.05 },
    });
  });

  test("of calls are separated by status, and by the type of error where something failed", async () => {
    const scene = watched({ onFailure: "remember" });
    await scene.guard.run(request, () => 1);
    await scene.guard.run(request, () => 1);
    await scene.guard.tryRun({ ...request, onCompleted: "reject" }, () => 1);
    await scene.guard.run({ ...request, key: "b" }, fail).catch(() => {});
    // The first caller's error again: a duplicate, and no second failure.
    await scene.guard.run({ ...request, key: "b" }, fail).catch(() => {});
    const durations = await sdk.durations("nevertwice.call.duration");
    expect(Object.fromEntries(Object.entries(durations).map(([label, { count }]) => [label, count]))).toEqual(
      {
        "operation=charge, status=ran": 1,
        "operation=charge, status=replayed": 2,
        "operation=charge, status=already-done": 1,
        "error.type=RangeError, operation=charge, status=failed": 1,
      },
    );
  });

  test("have buckets from a millisecond to a quarter of an hour, and units as OpenTelemetry writes them", async () => {
    const scene = watched();
    await scene.guard.run(request, () => 1);
    const metric = await sdk.metric("nevertwice.call.duration");
    if (metric?.dataPointType !== DataPointType.HISTOGRAM) throw new Error("it is no histogram");
    const boundaries = metric.dataPoints[0]?.value.buckets.boundaries ?? [];
    expect([boundaries[0], boundaries.at(-1)]).toEqual([0.001, 900]);
    expect(metric.descriptor.unit).toBe("s");
    expect((await sdk.metric("nevertwice.claims"))?.descriptor.unit).toBe("{claim}");
  });

  test("are real time, from the claim to the answer", async () => {
    const observer = telemetry({ meterProvider: sdk.meterProvider });
    const guard = createGuard({ store: memoryStore(), observer });
    await guard.run(request, () => new Promise((resolve) => setTimeout(resolve, 30)));
    const durations = await sdk.durations("nevertwice.call.duration");
    expect(durations["operation=charge, status=ran"]?.sum).toBeGreaterThan(0.025);
    await guard.close();
  });
});

describe("refusals", () => {
  test("are counted by status and code", async () => {
    const observer = telemetry({ meterProvider: sdk.meterProvider });
    const guard = createGuard({ store: memoryStore({ maxRecords: 1 }), observer });
    await guard.run({ ...request, fingerprint: 1 }, () => 1);
    await guard.tryRun({ ...request, fingerprint: 2 }, () => 1);
    await guard.tryRun({ ...request, key: "b" }, () => 1);
    await guard.close();
    await guard.tryRun(request, () => 1);
    expect(await sdk.counts("nevertwice.refusals")).toEqual({
      "error.type=conflict, operation=charge, status=conflict": 1,
      "error.type=store-full, operation=charge, status=unavailable": 1,
      "error.type=guard-closed, operation=charge, status=unavailable": 1,
    });
  });

  test("do not include values, replays or errors of the work", async () => {
    const scene = watched({ onFailure: "remember" });
    await scene.guard.run(request, () => 1);
    await scene.guard.run(request, () => 1);
    await scene.guard.run({ ...request, key: "b" }, fail).catch(() => {});
    await scene.guard.run({ ...request, key: "b" }, fail).catch(() => {});
    expect(await sdk.counts("nevertwice.refusals")).toEqual({});
  });
});

describe("a claim that fails because the store is down", () => {
  test("is refused by default, and counted", async () => {
    const scene = watched({ storeTimeoutMs: 100 });
    scene.store.setRates({ refuse: 1 });
    let runs = 0;
    const result = await scene.settle(scene.guard.tryRun(request, () => ++runs));
    expect([result.status, runs]).toEqual(["unavailable", 0]);
    expect(await sdk.counts("nevertwice.claims")).toEqual({ "answer=unavailable, operation=charge": 1 });
    expect(await sdk.counts("nevertwice.refusals")).toEqual({
      "error.type=unavailable, operation=charge, status=unavailable": 1,
    });
    expect(await sdk.counts("nevertwice.unavailable")).toEqual({ "during=claim, operation=charge": 1 });
    expect(await sdk.counts("nevertwice.unguarded")).toEqual({});
  });

  test("proceeds only with onUnavailable proceed, and is counted as unguarded", async () => {
    const scene = watched({ storeTimeoutMs: 100, onUnavailable: "proceed" });
    scene.store.setRates({ refuse: 1 });
    let runs = 0;
    const result = await scene.settle(scene.guard.tryRun(request, () => ++runs));
    expect(result).toEqual({ status: "ran", value: 1, recorded: false });
    expect(await sdk.counts("nevertwice.claims")).toEqual({ "answer=unavailable, operation=charge": 1 });
    expect(await sdk.counts("nevertwice.unguarded")).toEqual({ "operation=charge": 1 });
    expect(await sdk.counts("nevertwice.refusals")).toEqual({});
    expect(await sdk.counts("nevertwice.unavailable")).toEqual({
      "during=claim, operation=charge": 1,
      "during=complete, operation=charge": 1,
    });
  });

  test("and whose work another attempt had already done is counted as a possible duplicate", async () => {
    const scene = watched({ storeTimeoutMs: 100, onUnavailable: "proceed" });
    await scene.another().run(request, () => 1);
    for (let tries = 0; tries < 3; tries++) scene.store.plan("claim", "refuse");
    await scene.settle(scene.guard.run(request, () => 2));
    expect(await sdk.counts("nevertwice.possible_duplicates")).toEqual({ "operation=charge": 1 });
  });

  test("is counted, and later claims succeed when the store is back", async () => {
    const store = faultyStore(memoryStore());
    const observer = telemetry({ meterProvider: sdk.meterProvider });
    const guard = createGuard({ store, observer });
    for (let tries = 0; tries < 3; tries++) store.plan("claim", "refuse");
    await guard.tryRun(request, () => 1);
    await guard.close();
    expect(await createGuard({ store, observer }).run(request, () => 2)).toBe(2);
    expect(await sdk.counts("nevertwice.claims")).toMatchObject({
      "answer=unavailable, operation=charge": 1,
      "answer=new, operation=charge": 1,
    });
  });
});

test("counts lost leases, outcomes that are not stored, and purged records", async () => {
  const scene = watched({ leaseMs: 100, retentionMs: 1_000, purgeEveryMs: 2_000 });
  const loser = scene.guard.tryRun(request, async () => {
    scene.store.setRates({ refuse: 1 });
    await scene.sleep(200);
    scene.store.setRates({});
  });
  await scene.advance(150);
  await scene.another().run(request, () => "won");
  expect((await scene.settle(loser)).status).toBe("replayed");
  expect(await sdk.counts("nevertwice.lease.losses")).toEqual({
    "operation=charge, reason=not-renewed": 1,
    "operation=charge, reason=overtaken": 1,
  });
  await scene.guard.run({ ...request, key: "b" }, () => Symbol("not storable"));
  expect(await sdk.counts("nevertwice.not_kept")).toEqual({ "operation=charge": 1 });
  await scene.advance(6_000);
  expect(await sdk.counts("nevertwice.purged")).toEqual({ "": 2 });
});

test("counts checks by who answered and by their answer, and lost dead letters", async () => {
  const guard = createGuard({
    store: memoryStore(),
    purgeEveryMs: 0,
    observer: telemetry({ meterProvider: sdk.meterProvider }),
  });
  const lookup = () => true;
  await guard.seen(request);
  await guard.seen({ ...request, lookup });
  await guard.seen({ ...request, lookup });
  expect(await sdk.counts("nevertwice.checks")).toEqual({
    "answer=not-seen, by=store, operation=charge": 2,
    "answer=seen, by=lookup, operation=charge": 1,
    "answer=seen, by=store, operation=charge": 1,
  });
  const fail = () => Promise.reject(new Error("no"));
  const options = { operation: "charge", key: () => "other", deadLetters: fail };
  await protect(guard, options, fail).catch(() => {});
  expect(await sdk.counts("nevertwice.dead_letters_lost")).toEqual({ "operation=charge": 1 });
});

describe("the number of time series is bounded", () => {
  test("no time series contains a key or its hash", async () => {
    const scene = watched();
    const secret = { ...request, scope: "secret-scope", fingerprint: "secret-print" };
    await scene.guard.run(secret, () => "secret-value");
    await scene.guard.run(secret, () => "secret-value");
    const hash = (await scene.guard.read({ operation: "charge", key: secret.key, scope: secret.scope }))
      ?.keyHash;
    const text = JSON.stringify(await sdk.all());
    expect(text).toContain("nevertwice.claims");
    expect(text).not.toContain("secret");
    expect(text).not.toContain(hash);
  });

  test("operations beyond the limit are counted as one, and earlier ones keep their names", async () => {
    const scene = watched({}, { maxOperations: 2 });
    for (const operation of ["a", "b", "c", "d", "a"])
      await scene.guard.run({ operation, key: String(Math.random()) }, () => 1);
    expect(await sdk.counts("nevertwice.claims")).toEqual({
      "answer=new, operation=a": 2,
      "answer=new, operation=b": 1,
      "answer=new, operation=_OTHER": 2,
    });
  });

  test("a hundred operations are distinguished by default", async () => {
    const scene = watched();
    for (let path = 0; path < 130; path++)
      await scene.guard.run({ operation: `POST /payments/${path}`, key: "k" }, () => 1);
    const counts = await sdk.counts("nevertwice.claims");
    expect(Object.keys(counts)).toHaveLength(101);
    expect(counts["answer=new, operation=_OTHER"]).toBe(30);
  });

  test("the given function renames operations", async () => {
    const operation = (name: string) => (name.startsWith("POST") ? name.replace(/\d+/g, "{id}") : undefined);
    const scene = watched({}, { operation });
    for (const name of ["POST /payments/1", "POST /payments/2", "charge"])
      await scene.guard.run({ operation: name, key: "k" }, () => 1);
    expect(await sdk.counts("nevertwice.claims")).toEqual({
      "answer=new, operation=POST /payments/{id}": 2,
      "answer=new, operation=_OTHER": 1,
    });
  });

  test("a renaming function that throws or returns no name costs the name and nothing else", async () => {
    const broken = () => {
      throw new Error("broken");
    };
    const scene = watched({}, { operation: broken });
    expect(await scene.guard.run(request, () => 1)).toBe(1);
    const empty = scene.another({
      observer: telemetry({ meterProvider: sdk.meterProvider, operation: () => "" }),
    });
    expect(await empty.run(request, () => 2)).toBe(1);
    expect(await sdk.counts("nevertwice.claims")).toEqual({
      "answer=new, operation=_OTHER": 1,
      "answer=replayed, operation=_OTHER": 1,
    });
  });

  test("error names beyond the fiftieth are counted as one", async () => {
    const scene = watched();
    for (let n = 0; n < 60; n++) {
      const error = Object.assign(new Error("no"), { name: `Error${n}` });
      await scene.guard.run({ ...request, key: `${n}` }, () => Promise.reject(error)).catch(() => {});
    }
    const durations = await sdk.durations("nevertwice.call.duration");
    expect(Object.keys(durations)).toHaveLength(51);
    expect(durations["error.type=_OTHER, operation=charge, status=failed"]?.count).toBe(10);
    // Our own codes are few, and always keep their names.
    await scene.guard.run({ ...request, key: "f", fingerprint: 1 }, () => 1);
    await scene.guard.tryRun({ ...request, key: "f", fingerprint: 2 }, () => 1);
    expect(await sdk.counts("nevertwice.refusals")).toEqual({
      "error.type=conflict, operation=charge, status=conflict": 1,
    });
  });

  test("an error whose name is a sentence is counted without a name", async () => {
    const scene = watched();
    const sentence = Object.assign(new Error("no"), { name: "Customer 4711 has no money" });
    await scene.guard.run(request, () => Promise.reject(sentence)).catch(() => {});
    expect(Object.keys(await sdk.durations("nevertwice.call.duration"))).toEqual([
      "error.type=_OTHER, operation=charge, status=failed",
    ]);
  });
});

test("finds an SDK that is registered late, even after the first call", async () => {
  const guard = createGuard({ store: memoryStore(), observer: telemetry() });
  await guard.run(request, () => 1);
  metrics.setGlobalMeterProvider(sdk.meterProvider);
  await guard.run(request, () => 1);
  expect(await sdk.counts("nevertwice.claims")).toEqual({ "answer=replayed, operation=charge": 1 });
  await guard.close();
});

test("uses a given meter unchanged", async () => {
  const meter = sdk.meterProvider.getMeter("mine");
  const guard = createGuard({ store: memoryStore(), observer: telemetry({ meter }) });
  await guard.run(request, () => 1);
  expect(await sdk.counts("nevertwice.claims")).toEqual({ "answer=new, operation=charge": 1 });
  await guard.close();
});

test.each([
  [{ meters: 1 }, /there is no option called "meters"/],
  [{ meter: {} }, /meter must be an object of OpenTelemetry: it lacks createCounter\(\)/],
  [{ meterProvider: {} }, /lacks getMeter\(\)/],
  [{ tracer: 1 }, /lacks startSpan\(\)/],
  [{ tracerProvider: null }, /lacks getTracer\(\)/],
  [{ operation: "charge" }, /operation is "charge"; it must be a function/],
  [{ maxOperations: -1 }, /maxOperations/],
  [
    { meter: { createCounter() {} }, meterProvider: { getMeter() {} } },
    /meter and meterProvider are both given/,
  ],
  [{ tracer: { startSpan() {} }, tracerProvider: { getTracer() {} } }, /tracer and tracerProvider are both/],
])("refuses invalid options by name: %j", (options, message) => {
  expect(() => telemetry(options as never)).toThrow(message);
  expect(() => telemetry(options as never)).toThrow(expect.objectContaining({ code: "options-invalid" }));
});
