/** Tests what observers and telemetry are told about duplicates that do not get the stored outcome, at every door. */
import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClaims } from "../../src/claims/index.ts";
import type { GuardEvent } from "../../src/core/observer.ts";
import { idempotentMessages } from "../../src/events/a2a.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { saga } from "../../src/saga/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { telemetry } from "../../src/telemetry/index.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { createPipelineScene } from "../pipeline/scene.ts";
import { createMetricsSdk, createTracesSdk, type MetricsSdk, type TracesSdk } from "../telemetry/sdk.ts";

const SUBJECT = { operation: "charge", key: "k" };

let events: GuardEvent[];
let guard: Guard;
let metrics: MetricsSdk;
let traces: TracesSdk;
const clock = manualClock();
beforeEach(() => {
  events = [];
  metrics = createMetricsSdk();
  traces = createTracesSdk();
  const { meterProvider } = metrics;
  const { tracerProvider } = traces;
  guard = createGuard({
    store: memoryStore({ clock }),
    observer: [(event) => events.push(event), telemetry({ meterProvider, tracerProvider })],
    maxOutcomeBytes: 1_000,
    purgeEveryMs: 0,
  });
});
afterEach(() => guard.close());

const kinds = () => events.map(({ kind }) => kind);
const lastKind = () => events.at(-1)?.kind;
const LARGE = "x".repeat(2_000);

describe("a duplicate of a function", () => {
  it.each<[string, () => unknown]>([
    ["whose value was too large", () => LARGE],
    ["whose value cannot be encoded", () => () => 1],
  ])("%s is told apart from a replay", async (_, work) => {
    await guard.run(SUBJECT, work);
    expect(await guard.tryRun(SUBJECT, work)).toMatchObject({ status: "not-kept" });
    expect(kinds()).toEqual(["claimed", "completed", "not-kept", "replay-not-kept"]);
  });

  it("whose outcome an operator forgot is told apart from a replay", async () => {
    await guard.run(SUBJECT, () => 1);
    await guard.forget(SUBJECT);
    expect(await guard.tryRun(SUBJECT, () => 1)).toEqual({ status: "not-kept", reason: "forgotten" });
    expect(lastKind()).toBe("replay-not-kept");
  });

  it("that cannot decode the value is told that it is unreadable", async () => {
    await guard.run(SUBJECT, () => 1);
    const decode = () => {
      throw new Error("another version wrote it");
    };
    const request = { ...SUBJECT, encode: String, decode };
    expect(await guard.tryRun(request, () => 1)).toEqual({ status: "not-kept", reason: "unreadable" });
    expect(lastKind()).toBe("replay-unreadable");
  });

  it("that is refused by the policy is refused, whatever is stored", async () => {
    await guard.run(SUBJECT, () => LARGE);
    await guard.tryRun({ ...SUBJECT, onCompleted: "reject" }, () => 1);
    expect(events.at(-1)).toMatchObject({ kind: "replayed", refused: true });
  });

  it("that gets the error of the original is a replay", async () => {
    const fail = () => Promise.reject(new Error("declined"));
    await guard.run({ ...SUBJECT, onFailure: "remember" }, fail).catch(() => {});
    await expect(guard.run(SUBJECT, fail)).rejects.toThrow("declined");
    expect(events.at(-1)).toMatchObject({ kind: "replayed", refused: false });
  });
});

describe("a duplicate over HTTP", () => {
  async function duplicate(options: Partial<HttpOptions<Request>>, prepare?: () => unknown) {
    const served = { scope: "anyone", operation: "charge", clock, ...options } as const;
    const serve = withIdempotency(guard, served, () => Response.json({ id: 1 }, { status: 201 }));
    const headers = { "idempotency-key": '"k"' };
    const send = () => serve(new Request("http://shop.example/charge", { method: "POST", headers }));
    await send();
    await prepare?.();
    return (await send()).status;
  }

  it.each([
    ["status", 201],
    ["refuse", 409],
  ] as const)("of a response without a body is told apart, with onNotKept %s", async (onNotKept, status) => {
    expect(await duplicate({ keep: "marker", onNotKept })).toBe(status);
    expect(kinds()).toEqual(["claimed", "completed", "replay-not-kept"]);
  });

  it("of a response whose time is over is told apart", async () => {
    const late = () => clock.advance(121_000);
    expect(await duplicate({ expired: "refuse", retentionMs: 60_000 }, late)).toBe(409);
    expect(kinds()).toEqual(["claimed", "completed", "replay-expired"]);
  });

  it("of a record that another program wrote is told that it is unreadable", async () => {
    await guard.run(SUBJECT, () => "not a response");
    expect(await duplicate({ fingerprint: "none" })).toBe(500);
    expect(lastKind()).toBe("replay-unreadable");
  });

  it("of a stored response is a replay", async () => {
    expect(await duplicate({})).toBe(201);
    expect(kinds()).toEqual(["claimed", "completed", "replayed"]);
  });
});

describe("a duplicate of a record that another program wrote is told that it is unreadable", () => {
  it("by a tool of MCP", async () => {
    const tool = idempotentTool(guard, { scope: "anyone", operation: "charge", fingerprint: "none" });
    await guard.run(SUBJECT, () => "text");
    const call = tool.handler(async () => ({ content: [] }));
    expect(await call({ idempotency_key: "k" }, {})).toMatchObject({ isError: true });
    expect(lastKind()).toBe("replay-unreadable");
  });

  it("by an agent of A2A, with a stream and without", async () => {
    const agent = { sendMessage: async () => ({}), async *sendMessageStream() {} };
    const options = { scope: "anyone", operation: "charge", fingerprint: "none" } as const;
    const handler = idempotentMessages(guard, options, agent as never) as unknown as {
      sendMessage(params: object, context: object): Promise<object>;
      sendMessageStream(params: object, context: object): AsyncIterable<object>;
    };
    await guard.run(SUBJECT, () => "text");
    const message = { message: { messageId: "k" } };
    await expect(handler.sendMessage(message, {})).rejects.toThrow("not-kept");
    const stream = handler.sendMessageStream(message, {})[Symbol.asyncIterator]();
    await expect(stream.next()).rejects.toThrow("not-kept");
    expect(kinds().slice(-2)).toEqual(["replay-unreadable", "replay-unreadable"]);
  });

  it("by a saga", async () => {
    await guard.run(SUBJECT, () => "text");
    const step = { name: "ship", run: () => 1 };
    expect(await saga(guard, SUBJECT, [step])).toEqual({ status: "not-kept", reason: "unreadable" });
    expect(lastKind()).toBe("replay-unreadable");
  });

  it("by a node of a pipeline", async () => {
    const network = {
      nodes: { charge: { kind: "sink", key: "id", shell: () => {} } },
      edges: [],
      in: { orders: "charge.in" },
    } as const;
    const seen: GuardEvent[] = [];
    const scene = createPipelineScene(network, {}, { observer: (event) => seen.push(event) });
    await scene.guard.run({ operation: "shop/charge", scope: "shop|charge", key: "o-1" }, () => "text");
    await scene.settle(scene.pipeline.push("orders", { id: "o-1" }));
    expect(seen.map(({ kind }) => kind)).toContain("replay-unreadable");
  });
});

it("a claim whose work is done elsewhere is told apart from a replay", async () => {
  const claims = createClaims({
    store: memoryStore(),
    observer: (event: GuardEvent) => events.push(event),
    maxOutcomeBytes: 1_000,
    purgeEveryMs: 0,
  });
  const granted = await claims.claim(SUBJECT);
  if (granted.status !== "new") throw new Error(`it was answered ${granted.status}`);
  await claims.complete({ id: granted.id, token: granted.token, value: LARGE });
  expect(await claims.claim(SUBJECT)).toMatchObject({ status: "completed", outcome: { kind: "not-kept" } });
  expect(lastKind()).toBe("replay-not-kept");
  await claims.close();
});

it("telemetry counts each of them by its own answer, and links the span to the original", async () => {
  await guard.run(SUBJECT, () => LARGE);
  await guard.tryRun(SUBJECT, () => 1);
  expect(await metrics.counts("nevertwice.claims")).toEqual({
    "answer=new, operation=charge": 1,
    "answer=not-kept, operation=charge": 1,
  });
  const span = traces.spans().at(-1);
  expect(span?.attributes).toMatchObject({
    "nevertwice.replayed": false,
    "nevertwice.not_replayed": "not-kept",
  });
});

/** Typed, so that a kind without a row here does not compile. */
const KINDS: Readonly<Record<GuardEvent["kind"], true>> = {
  ...{ claimed: true, replayed: true, pending: true, waited: true, conflict: true, lapsed: true },
  ...{ "replay-not-kept": true, "replay-unreadable": true, "replay-expired": true },
  ...{ "taken-over": true, renewed: true, "step-kept": true, "step-skipped": true, "token-spent": true },
  ...{ "lease-lost": true, completed: true, "not-kept": true, abandoned: true, unavailable: true },
  ...{ proceeded: true, "possible-duplicate": true, purged: true, checked: true, "dead-letter-lost": true },
};

it("docs/telemetry.md lists every event, and docs/metrics.md every answer to a claim", async () => {
  const page = await readFile(new URL("../../../../docs/telemetry.md", import.meta.url), "utf8");
  const section = page.split(/^## /m).find((text) => text.startsWith("Events")) ?? "";
  const rows = [...section.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, kind]) => kind);
  expect(rows.toSorted()).toEqual(Object.keys(KINDS).toSorted());
  const metrics = await readFile(new URL("../../../../docs/metrics.md", import.meta.url), "utf8");
  const claims = metrics.split("\n").find((line) => line.startsWith("| `nevertwice.claims` |")) ?? "";
  for (const answer of ["replayed", "already-done", "not-kept", "unreadable", "expired"])
    expect(claims).toContain(`\`${answer}\``);
});
