/** Tests the span of a call: its attributes, its links, and when it is an error. */
import { runInNewContext } from "node:vm";
import {
  context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { AlwaysOffSampler, BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { GuardOptions } from "../../src/core/engine.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { telemetry } from "../../src/telemetry/index.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { createScene, lapse } from "../core/scene.ts";
import { createTracesSdk, registerContextManager, type TracesSdk } from "./sdk.ts";

const request = { operation: "charge", key: "secret-key-4711" };
const { UNSET, ERROR } = SpanStatusCode;

let sdk: TracesSdk;
let unregister: () => void;
beforeEach(() => {
  sdk = createTracesSdk();
  unregister = registerContextManager();
});
afterEach(() => unregister());

const ours = () => telemetry({ tracerProvider: sdk.tracerProvider });

function watched(options: Partial<GuardOptions> = {}) {
  return createGuard({ store: memoryStore(), observer: ours(), ...options });
}

/** The span that ended last. */
function last() {
  const span = sdk.spans().at(-1);
  if (span === undefined) throw new Error("there is no span");
  return span;
}

const linkedSpans = (span: ReturnType<typeof last>) => span.links.map((link) => link.context.spanId);

describe("a span", () => {
  test("covers each call and records its result", async () => {
    const guard = watched();
    await guard.run(request, () => 1);
    // The span has ended before the caller continues.
    expect(sdk.spans()).toHaveLength(1);
    const { name, kind, status, attributes, instrumentationScope } = last();
    expect([name, kind, status.code, instrumentationScope.name]).toEqual([
      "nevertwice charge",
      SpanKind.INTERNAL,
      UNSET,
      "nevertwice",
    ]);
    const record = await guard.read(request);
    expect(attributes).toEqual({
      "nevertwice.operation": "charge",
      "nevertwice.key_hash": record?.keyHash,
      "nevertwice.fence": record?.fence,
      "nevertwice.attempt": 1,
      "nevertwice.taken_over": false,
      "nevertwice.status": "ran",
      "nevertwice.replayed": false,
    });
    await guard.close();
  });

  test("is a child of the caller's span and the parent of the work's spans", async () => {
    const tracer = sdk.tracerProvider.getTracer("mine");
    const guard = watched({ observer: telemetry({ tracer }) });
    await tracer.startActiveSpan("request", async (span) => {
      await guard.run(request, async () => {
        await Promise.resolve();
        tracer.startSpan("psp").end();
      });
      span.end();
    });
    const [psp, call, outer] = sdk.spans();
    expect([psp?.name, call?.name, outer?.name]).toEqual(["psp", "nevertwice charge", "request"]);
    expect(psp?.parentSpanContext?.spanId).toBe(call?.spanContext().spanId);
    expect(call?.parentSpanContext?.spanId).toBe(outer?.spanContext().spanId);
    await guard.close();
  });

  test("has the number of the attempt, and whether it took over", async () => {
    const scene = createScene({ observer: ours() });
    await lapse(scene, request);
    await scene.guard.run(request, () => 1);
    expect(last().attributes).toMatchObject({ "nevertwice.attempt": 2, "nevertwice.taken_over": true });
  });

  test("never contains the key, the scope, the returned value or the error message", async () => {
    const guard = watched();
    const secret = { ...request, scope: "secret-scope", fingerprint: "secret-print" };
    await guard.run(secret, () => "secret-value");
    await guard
      .run({ ...secret, key: "b" }, () => Promise.reject(new Error("secret-reason")))
      .catch(() => {});
    const told = sdk
      .spans()
      .map(({ name, attributes, status, events }) => ({ name, attributes, status, events }));
    expect(JSON.stringify(told)).toContain("nevertwice charge");
    expect(JSON.stringify(told)).not.toContain("secret");
    await guard.close();
  });

  test("has a name without an id, and the whole operation as an attribute", async () => {
    const operation = (name: string) => (name === "charge" ? undefined : name.replace(/\d+/, "{id}"));
    const guard = watched({ observer: telemetry({ tracerProvider: sdk.tracerProvider, operation }) });
    await guard.run({ operation: "POST /payments/17", key: "a" }, () => 1);
    expect([last().name, last().attributes["nevertwice.operation"]]).toEqual([
      "nevertwice POST /payments/{id}",
      "POST /payments/17",
    ]);
    await guard.run(request, () => 1);
    expect([last().name, last().attributes["nevertwice.operation"]]).toEqual(["nevertwice", "charge"]);
    await guard.close();
  });

  test("of a call within a call has its own attributes only", async () => {
    const guard = watched();
    await guard.run({ operation: "inner", key: "a" }, () => 1);
    await guard.run({ operation: "outer", key: "a" }, () =>
      guard.run({ operation: "inner", key: "a" }, () => 2),
    );
    const [original, inner, outer] = sdk.spans();
    expect(inner?.attributes).toMatchObject({ "nevertwice.operation": "inner", "nevertwice.replayed": true });
    expect(inner?.attributes).not.toHaveProperty("nevertwice.fence");
    expect(outer?.attributes).toMatchObject({
      "nevertwice.operation": "outer",
      "nevertwice.replayed": false,
    });
    expect([inner?.links.length, outer?.links.length]).toEqual([1, 0]);
    expect(inner?.links[0]?.context.spanId).toBe(original?.spanContext().spanId);
    await guard.close();
  });

  test("does not record what its work does to other keys", async () => {
    const scene = createScene({ observer: ours() });
    const fence = await lapse(scene, { ...request, key: "b" });
    const decide = () => scene.guard.resolve({ ...request, key: "b", fence }, { status: "not-done" });
    expect(await scene.guard.run(request, decide)).toBe(true);
    expect(last().attributes).not.toHaveProperty("nevertwice.abandoned_as");
  });

  test("that has ended is not changed when the store confirms an outcome late", async () => {
    const warn = vi.fn();
    diag.setLogger({ warn, error: warn, info() {}, debug() {}, verbose() {} }, DiagLogLevel.WARN);
    const store = faultyStore(memoryStore());
    const guard = watched({
      store,
      completeWaitMs: 0,
      onFailure: "unknown",
    });
    await guard.run(request, () => Symbol("not storable"));
    await guard.run({ ...request, key: "b" }, () => Promise.reject(new Error("no"))).catch(() => {});
    await guard.close();
    diag.disable();
    expect(store.calls).toMatchObject({ complete: 1, abandon: 1 });
    expect(sdk.spans()[0]?.attributes).toMatchObject({
      "nevertwice.status": "ran",
      "nevertwice.recorded": false,
    });
    expect(warn).not.toHaveBeenCalled();
  });
});

describe("a duplicate's span is linked to the original's", () => {
  test("also from another guard with its own telemetry", async () => {
    const store = memoryStore();
    const here = watched({ store });
    await here.run(request, () => 1);
    const original = last().spanContext();
    sdk = createTracesSdk();
    const there = watched({ store });
    await there.run(request, () => 2);
    expect(last().attributes).toMatchObject({ "nevertwice.status": "replayed", "nevertwice.replayed": true });
    const { traceId, spanId } = original;
    expect(last().links).toEqual([{ context: { traceId, spanId, traceFlags: 1, isRemote: true } }]);
    expect(last().spanContext().traceId).not.toBe(original.traceId);
    await Promise.all([here.close(), there.close()]);
  });

  test("when it waited for the original", async () => {
    const guard = watched();
    // The store answers claims in order: the second waits for the first.
    const owner = guard.run(request, () => new Promise((resolve) => setTimeout(resolve, 20, 1)));
    const waiter = guard.run(request, () => 2);
    expect(await Promise.all([owner, waiter])).toEqual([1, 1]);
    // Either of them may end first.
    const original = sdk.spans().find(({ attributes }) => attributes["nevertwice.status"] === "ran");
    const duplicate = sdk.spans().find((span) => span !== original);
    expect(duplicate?.attributes["nevertwice.waited"]).toBeGreaterThan(0);
    expect(duplicate && linkedSpans(duplicate)).toEqual([original?.spanContext().spanId]);
    await guard.close();
  });

  test("when it is refused because the work is done", async () => {
    const guard = watched({ onCompleted: "reject" });
    await guard.run(request, () => 1);
    await guard.tryRun(request, () => 1);
    const [original, duplicate] = sdk.spans();
    expect(duplicate?.attributes["nevertwice.status"]).toBe("already-done");
    expect(duplicate && linkedSpans(duplicate)).toEqual([original?.spanContext().spanId]);
    await guard.close();
  });

  test("when it gets the original's error, which is an error there and not here", async () => {
    const guard = watched({ onFailure: "remember" });
    const declined = () => Promise.reject(new RangeError("declined"));
    await expect(guard.run(request, declined)).rejects.toThrow("declined");
    await expect(guard.run(request, declined)).rejects.toThrow("declined");
    const [original, duplicate] = sdk.spans();
    expect(original?.attributes).toMatchObject({ "nevertwice.status": "failed", "error.type": "RangeError" });
    expect(duplicate?.attributes).toMatchObject({
      "nevertwice.status": "replayed",
      "nevertwice.replayed": true,
    });
    expect(duplicate?.attributes).not.toHaveProperty("error.type");
    expect([original?.status.code, duplicate?.status.code]).toEqual([ERROR, UNSET]);
    expect(duplicate && linkedSpans(duplicate)).toEqual([original?.spanContext().spanId]);
    await guard.close();
  });

  test("when no context manager is registered", async () => {
    unregister();
    const guard = watched();
    await guard.run(request, () => Promise.resolve(1));
    await guard.run(request, () => 1);
    const [original, duplicate] = sdk.spans();
    expect(original?.attributes["nevertwice.attempt"]).toBe(1);
    expect(duplicate && linkedSpans(duplicate)).toEqual([original?.spanContext().spanId]);
    await guard.close();
  });

  test("over HTTP", async () => {
    const guard = watched();
    const handle = withIdempotency(guard, { scope: "anyone" }, () => new Response("paid", { status: 201 }));
    const send = () =>
      handle(new Request("http://shop/payments", { method: "POST", headers: { "Idempotency-Key": '"k"' } }));
    expect([(await send()).status, (await send()).status]).toEqual([201, 201]);
    const [original, duplicate] = sdk.spans();
    expect(original?.name).toBe("nevertwice POST /payments");
    expect(duplicate && linkedSpans(duplicate)).toEqual([original?.spanContext().spanId]);
    await guard.close();
  });

  test("when the original was not sampled: its id is sufficient", async () => {
    const store = memoryStore();
    const unsampled = new BasicTracerProvider({ sampler: new AlwaysOffSampler() });
    const here = watched({ store, observer: telemetry({ tracerProvider: unsampled }) });
    await here.run(request, () => 1);
    const there = watched({ store });
    await there.run(request, () => 1);
    expect(last().links).toMatchObject([{ context: { traceFlags: 0, isRemote: true } }]);
    await Promise.all([here.close(), there.close()]);
  });

  test("or names it in an attribute if spans take no links after their start", async () => {
    const real = sdk.tracerProvider.getTracer("old");
    const old: Tracer = Object.create(real, {
      startSpan: {
        value: (...args: Parameters<Tracer["startSpan"]>) =>
          Object.defineProperty(real.startSpan(...args), "addLink", { value: undefined }),
      },
    });
    const guard = watched({ observer: telemetry({ tracer: old }) });
    await guard.run(request, () => 1);
    const { traceId, spanId } = last().spanContext();
    expect(await guard.run(request, () => 2)).toBe(1);
    expect(last().attributes["nevertwice.origin"]).toBe(`00-${traceId}-${spanId}-01`);
    expect(last().links).toEqual([]);
    await guard.close();
  });

  test.each(["somewhere else", `00-${"0".repeat(32)}-${"0".repeat(16)}-01`, "00-abc-def-01"])(
    "but not to the origin of another observer: %s",
    async (text) => {
      const store = memoryStore();
      const other = createGuard({ store, observer: Object.assign(() => {}, { origin: () => text }) });
      await other.run(request, () => 1);
      const guard = watched({ store });
      expect(await guard.run(request, () => 2)).toBe(1);
      expect(last().links).toEqual([]);
      await Promise.all([other.close(), guard.close()]);
    },
  );
});

describe("a span is an error", () => {
  test("if the work threw, and has only the type of the error", async () => {
    const guard = watched();
    await guard.run(request, () => Promise.reject(new RangeError("no"))).catch(() => {});
    expect(last().status).toEqual({ code: ERROR });
    expect(last().attributes).toMatchObject({
      "nevertwice.status": "failed",
      "error.type": "RangeError",
      "nevertwice.abandoned_as": "released",
    });
    await guard.run({ ...request, key: "b" }, () => Promise.reject("a text")).catch(() => {});
    expect(last().attributes["error.type"]).toBe("_OTHER");
    await guard.close();
  });

  test("if the store did not answer, and not if the work proceeded without it", async () => {
    const scene = createScene({
      observer: ours(),
      storeTimeoutMs: 100,
    });
    scene.store.setRates({ refuse: 1 });
    await scene.settle(scene.guard.tryRun(request, () => 1));
    expect(last().status.code).toBe(ERROR);
    expect(last().attributes).toMatchObject({
      "nevertwice.status": "unavailable",
      "error.type": "unavailable",
      "nevertwice.unavailable_during": "claim",
    });
    await scene.settle(scene.guard.tryRun({ ...request, onUnavailable: "proceed" }, () => 1));
    expect(last().status.code).toBe(UNSET);
    expect(last().attributes).toMatchObject({
      "nevertwice.status": "ran",
      "nevertwice.unguarded": true,
      "nevertwice.recorded": false,
    });
  });

  test("if the claim was lost, with the reason", async () => {
    const scene = createScene({ observer: ours(), leaseMs: 100 });
    const loser = scene.guard.tryRun(request, async () => {
      scene.store.setRates({ refuse: 1 });
      await scene.sleep(200);
      scene.store.setRates({});
    });
    await scene.advance(150);
    const winner = scene.another().run(request, () => scene.sleep(500));
    expect((await scene.settle(loser)).status).toBe("lease-lost");
    expect(last().status.code).toBe(ERROR);
    expect(last().attributes).toMatchObject({
      "nevertwice.status": "lease-lost",
      "error.type": "lease-lost",
      "nevertwice.lease_lost": "overtaken",
    });
    await scene.settle(winner);
  });

  test("but not if the work ended with a response that is not stored, or a lock was released", async () => {
    const guard = watched();
    const handle = withIdempotency(guard, { scope: "anyone" }, () => new Response("", { status: 429 }));
    const headers = { "Idempotency-Key": '"k"' };
    await handle(new Request("http://shop/payments", { method: "POST", headers }));
    expect([last().attributes["nevertwice.status"], last().status.code]).toEqual(["abandoned", UNSET]);
    expect(last().attributes["nevertwice.abandoned_as"]).toBe("released");
    await guard.exclusive("nightly", () => 1);
    expect([last().attributes["nevertwice.status"], last().status.code]).toEqual(["abandoned", UNSET]);
    await guard.close();
  });

  test("if the work threw an error of another realm, or a value that is not an object", async () => {
    const guard = watched();
    const foreign = runInNewContext("new RangeError('no')");
    await guard.run(request, () => Promise.reject(foreign)).catch(() => {});
    expect([last().attributes["error.type"], last().status.code]).toEqual(["RangeError", ERROR]);
    await guard.run(request, () => Promise.reject(null)).catch(() => {});
    expect([last().attributes["error.type"], last().status.code]).toEqual(["_OTHER", ERROR]);
    await guard.close();
  });

  test("but not for duplicates, whatever their status", async () => {
    const scene = createScene({ observer: ours() });
    const told: [unknown, SpanStatusCode][] = [];
    const note = () => told.push([last().attributes["nevertwice.status"], last().status.code]);
    await scene.guard.run({ ...request, fingerprint: 1 }, () => Symbol("not storable"));
    await scene.guard.tryRun({ ...request, fingerprint: 1 }, () => 1);
    note();
    await scene.guard.tryRun({ ...request, fingerprint: 2 }, () => 1);
    note();
    await scene.guard.tryRun({ ...request, fingerprint: 1, onCompleted: "reject" }, () => 1);
    note();
    await lapse(scene, { ...request, key: "b" });
    await scene.guard.tryRun({ ...request, key: "b", onLapsed: "hold" }, () => 1);
    note();
    const owner = scene.guard.run({ ...request, key: "c" }, () => scene.sleep(50));
    await scene.advance(1);
    await scene.guard.tryRun({ ...request, key: "c", onPending: "reject" }, () => 1);
    note();
    await scene.settle(owner);
    expect(told).toEqual([
      ["not-kept", UNSET],
      ["conflict", UNSET],
      ["already-done", UNSET],
      ["unknown", UNSET],
      ["pending", UNSET],
    ]);
  });
});

test("finds a tracer provider that is registered after telemetry() was called", async () => {
  const guard = createGuard({ store: memoryStore(), observer: telemetry() });
  await guard.run(request, () => 1);
  trace.setGlobalTracerProvider(sdk.tracerProvider);
  await guard.run(request, () => 1);
  trace.disable();
  expect(sdk.spans().map(({ name }) => name)).toEqual(["nevertwice charge"]);
  await guard.close();
});

test("without an SDK, the caller's span is the origin, so that a replay is still linked to it", async () => {
  const store = memoryStore();
  const plain = createGuard({ store, observer: telemetry() });
  const tracer = sdk.tracerProvider.getTracer("mine");
  const caller = tracer.startSpan("request", {}, ROOT_CONTEXT);
  await context.with(trace.setSpan(context.active(), caller), () => plain.run(request, () => 1));
  const guard = watched({ store });
  await guard.run(request, () => 2);
  expect(linkedSpans(last())).toEqual([caller.spanContext().spanId]);
  await Promise.all([plain.close(), guard.close()]);
});
