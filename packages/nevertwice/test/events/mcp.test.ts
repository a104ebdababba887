/** Tools of an MCP server, with the official server and client. */
import {
  fromJsonSchema,
  inputRequired,
  McpServer,
  Server,
  type ServerContext,
  type ToolCallback,
} from "@modelcontextprotocol/server";
import { describe, expect, expectTypeOf, it, vi } from "vitest";
import type { Attempt } from "../../src/core/attempt.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { gate } from "../deferred.ts";
import { type Charge, connect, dial, listen, shop, text } from "./mcp-scene.ts";

const KEY = "7f4b9a52-5a3e-4d5c-9a55-3b1f0f1c2d3e";

function charge(amount: number, extra: object = {}): { name: string; arguments: Record<string, unknown> } {
  return { name: "charge", arguments: { amount, ...extra } };
}

describe("a tool with a key", () => {
  it.each([
    ["in _meta", { _meta: { idempotency_key: KEY } }, {}],
    ["in _meta, with a hyphen", { _meta: { "idempotency-key": KEY } }, {}],
    ["in _meta, in camel case", { _meta: { idempotencyKey: KEY } }, {}],
    ["in an argument", {}, { idempotency_key: KEY }],
    ["in the argument meta", {}, { meta: { idempotency_key: KEY } }],
    ["in the argument meta, with a hyphen", {}, { meta: { "idempotency-key": KEY } }],
  ])("AG-15 runs once and returns the same answer with the key %s", async (_where, extra, args) => {
    const { server, runs } = shop();
    const client = await connect(server());
    const first = await client.callTool({ ...charge(5, args), ...extra });
    const again = await client.callTool({ ...charge(5, args), ...extra });
    expect(first.content).toEqual([{ type: "text", text: "receipt 1 for 5" }]);
    expect(again.content).toEqual(first.content);
    expect(runs()).toBe(1);
  });

  it("AG-15 reads a custom name, and no other", async () => {
    const { server, runs } = shop({ key: { meta: "shop/request" } });
    const client = await connect(server());
    const call = { ...charge(5), _meta: { "shop/request": "a" } };
    await client.callTool(call);
    await client.callTool(call);
    expect(runs()).toBe(1);
    const other = await client.callTool({ ...charge(5), _meta: { idempotency_key: "a" } });
    expect(other).toMatchObject({ isError: true, _meta: { nevertwice: { code: "key-missing" } } });
  });

  it("AG-15 recognises the call wherever the key is sent", async () => {
    const { server, runs } = shop();
    const client = await connect(server());
    await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    for (const place of [{ idempotency_key: KEY }, { idempotencyKey: KEY }]) {
      const again = await client.callTool(charge(5, place));
      expect(again._meta).toEqual({ replayed: true });
    }
    expect(runs()).toBe(1);
  });

  it("AG-15 runs once for two servers on one store, over HTTP, also at the same time", async () => {
    const store = memoryStore();
    const [one, two] = [shop({}, { store }), shop({}, { store })];
    const clients = [await dial(await listen(one.server)), await dial(await listen(two.server))];
    const calls = Array.from({ length: 10 }, (_, n) =>
      clients[n % 2]?.callTool({ ...charge(5), _meta: { idempotency_key: KEY } }),
    );
    const answers = await Promise.all(calls);
    expect(new Set(answers.map((answer) => JSON.stringify(answer?.content))).size).toBe(1);
    expect(one.runs() + two.runs()).toBe(1);
  });

  it('AG-15 uses all arguments as the key with key "arguments"', async () => {
    const { server, runs } = shop({ key: "arguments" });
    const client = await connect(server());
    await client.callTool(charge(5));
    await client.callTool(charge(5));
    expect(runs()).toBe(1);
    await client.callTool(charge(6));
    expect(runs()).toBe(2);
  });

  it("AG-17 refuses other arguments under one key, without a hint of the first", async () => {
    const { server, runs } = shop();
    const client = await connect(server());
    await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    const other = await client.callTool({ ...charge(6), _meta: { idempotency_key: KEY } });
    expect(other.isError).toBe(true);
    expect(other._meta).toMatchObject({ nevertwice: { code: "conflict", retryable: false } });
    expect(JSON.stringify(other)).not.toContain("receipt");
    expect(runs()).toBe(1);
  });

  it("AG-06 returns JSON-RPC error -32000 for a mismatch, from a server that handles tools/call itself", async () => {
    const { tool, run, runs } = shop({ refusal: "rpc-error" });
    const server = new Server({ name: "shop", version: "1.0.0" }, { capabilities: { tools: {} } });
    const handler = tool.handler(run);
    server.setRequestHandler("tools/call", ({ params }, context) =>
      handler(params.arguments as unknown as Charge, context),
    );
    const client = await connect(server);
    const meta = { "idempotency-key": KEY };
    await client.callTool(charge(5, { meta }));
    const again = await client.callTool(charge(5, { meta }));
    expect(again._meta).toEqual({ replayed: true });
    await expect(client.callTool(charge(6, { meta }))).rejects.toMatchObject({
      code: -32_000,
      data: { code: "conflict", retryable: false },
    });
    await expect(client.callTool(charge(6))).rejects.toMatchObject({ code: -32_602 });
    expect(runs()).toBe(1);
  });

  it("returns a tool error from registerTool in that style too, because the server converts what is thrown", async () => {
    const { server } = shop({ refusal: "rpc-error" });
    const client = await connect(server());
    await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    const other = await client.callTool({ ...charge(6), _meta: { idempotency_key: KEY } });
    expect(other.isError).toBe(true);
  });

  it("returns what a custom refusal function returns", async () => {
    const { server } = shop({
      refusal: ({ code }) => ({
        content: [],
        structuredContent: { adcp_error: { code: code === "conflict" ? "IDEMPOTENCY_CONFLICT" : code } },
        isError: true,
      }),
    });
    const client = await connect(server());
    await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    const other = await client.callTool({ ...charge(6), _meta: { idempotency_key: KEY } });
    expect(other.structuredContent).toEqual({ adcp_error: { code: "IDEMPOTENCY_CONFLICT" } });
  });

  it.each([
    ["no key", {}],
    ["an empty key", { idempotency_key: "" }],
    ["15 characters", { idempotency_key: "x".repeat(15) }],
    ["a space", { idempotency_key: `${KEY} x` }],
    ["256 characters", { idempotency_key: "x".repeat(256) }],
    ["two keys", { idempotency_key: KEY, idempotencyKey: `${KEY}0` }],
    ["a key that is a number", { idempotency_key: 1234567890123456 }],
  ])("AG-07 refuses a call with %s over MCP, and does not call the store", async (_what, _meta) => {
    const store = faultyStore(memoryStore());
    const { server, runs } = shop({ keyPattern: /^[A-Za-z0-9_.:-]{16,255}$/ }, { store });
    const client = await connect(server());
    const refused = await client.callTool({ ...charge(5), _meta });
    expect(refused.isError).toBe(true);
    const code = Object.keys(_meta).length === 0 ? "key-missing" : "key-invalid";
    expect(refused._meta).toMatchObject({ nevertwice: { code, retryable: false } });
    expect(store.calls.claim + store.calls.read).toBe(0);
    expect(runs()).toBe(0);
  });

  it.each([
    ["an empty key", ""],
    ["256 characters", "x".repeat(256)],
    ["null", null],
  ])("refuses %s instead of treating it as a call without a key", async (_what, idempotency_key) => {
    const { server, runs } = shop({ required: false });
    const client = await connect(server());
    const refused = await client.callTool({ ...charge(5), _meta: { idempotency_key } });
    expect(refused._meta).toMatchObject({ nevertwice: { code: "key-invalid" } });
    expect(runs()).toBe(0);
  });

  it("AG-08 executes again after the tool returned an error", async () => {
    const { server, runs, answers } = shop({}, { onFailure: "remember" });
    const client = await connect(server());
    answers(() => ({ ...text("card declined"), isError: true }));
    const failed = await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    expect(failed).toMatchObject({ isError: true, content: [{ text: "card declined" }] });
    answers(() => text("paid"));
    const again = await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    expect(again.content).toEqual([{ type: "text", text: "paid" }]);
    expect(again._meta).toBeUndefined();
    expect(runs()).toBe(2);
  });

  it("AG-08 executes again after the tool threw", async () => {
    const { server, runs, answers } = shop();
    const client = await connect(server());
    answers(() => {
      throw new Error("out of order");
    });
    await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    const again = await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    expect(again).toMatchObject({ isError: true, content: [{ text: "out of order" }] });
    expect(runs()).toBe(2);
  });

  it.each([true, (result: object) => JSON.stringify(result).includes("declined")])(
    "stores an error of the tool if keepErrors allows it",
    async (keepErrors) => {
      const { server, runs, answers } = shop({ keepErrors });
      const client = await connect(server());
      answers(() => ({ ...text("card declined"), isError: true }));
      await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
      const again = await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
      expect(again).toMatchObject({ isError: true, _meta: { replayed: true } });
      expect(runs()).toBe(1);
    },
  );

  it.each([
    ["a promise", async () => true],
    ["a text", () => "yes"],
  ])("does not store an error if keepErrors returns %s", async (_, keepErrors) => {
    const { server, runs, answers } = shop({ keepErrors: keepErrors as never });
    const client = await connect(server());
    answers(() => ({ ...text("card declined"), isError: true }));
    for (let i = 0; i < 2; i++) await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    expect(runs()).toBe(2);
  });

  it("AG-09 replays the payload byte by byte, with replayed in _meta", async () => {
    const { server, answers } = shop();
    const client = await connect(server());
    answers(() => ({
      content: [{ type: "text", text: "é\u2028\u0000" }],
      structuredContent: { z: 1, a: [1.5, null, { "10": "x", "9": "y" }] },
      _meta: { trace: "t-1" },
    }));
    const { _meta: ofFirst, ...first } = await client.callTool({
      ...charge(5),
      _meta: { idempotency_key: KEY },
    });
    const { _meta: ofReplay, ...replay } = await client.callTool({
      ...charge(5),
      _meta: { idempotency_key: KEY },
    });
    expect(JSON.stringify(replay)).toBe(JSON.stringify(first));
    expect(ofFirst).toEqual({ trace: "t-1" });
    expect(ofReplay).toEqual({ trace: "t-1", replayed: true });
  });

  it("AG-14 recognises a retry by its key, whatever its JSON-RPC id is", async () => {
    const { server, calls, runs } = shop({ required: false });
    const url = await listen(server);
    const clients = [await dial(url), await dial(url)];
    for (const client of clients) await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    expect(runs()).toBe(1);
    // Two clients count their requests in the same way: the same id twice is two calls.
    for (const client of clients) await client.callTool(charge(5));
    expect(runs()).toBe(3);
    expect(calls[1]?.mcpReq.id).toBe(calls[2]?.mcpReq.id);
  });

  it("AG-14 stores nothing while the tool asks the user, and stores the answer of the last round", async () => {
    const { server, runs, answers, calls } = shop();
    answers((_args, { mcpReq }) =>
      mcpReq.inputResponses === undefined
        ? inputRequired({
            inputRequests: {
              sure: inputRequired.elicit({
                message: "Sure?",
                requestedSchema: { type: "object", properties: { yes: { type: "boolean" } } },
              }),
            },
          })
        : text("paid"),
    );
    const client = await dial(await listen(server));
    client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { yes: true } }));
    const call = { ...charge(5), _meta: { idempotency_key: KEY } };
    const first = await client.callTool(call);
    expect(first.content).toEqual([{ type: "text", text: "paid" }]);
    expect(runs()).toBe(2);
    expect(calls[0]?.mcpReq.id).not.toBe(calls[1]?.mcpReq.id);
    expect((await client.callTool(call)).content).toEqual(first.content);
    expect(runs()).toBe(2);
  });

  it("AG-16 continues when the client closes the stream, and replays the stored answer", async () => {
    const { server, runs, answers } = shop();
    const started = gate();
    answers(async (_args, { mcpReq: { signal } }) => {
      started.open();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      return text("paid");
    });
    const url = await listen(server);
    const call = { ...charge(5), _meta: { idempotency_key: KEY } };
    const leaving = new AbortController();
    const first = (await dial(url)).callTool(call, { signal: leaving.signal });
    first.catch(() => {});
    await started.opened;
    leaving.abort();
    await expect(first).rejects.toThrow();
    const again = await (await dial(url)).callTool(call);
    expect(again.content).toEqual([{ type: "text", text: "paid" }]);
    expect(again._meta).toMatchObject({ replayed: true });
    expect(runs()).toBe(1);
  });

  it("AG-16 leaves the outcome unknown when a cancelled tool stops halfway", async () => {
    const { server, guard, answers } = shop({ onLapsed: "hold" });
    const started = gate();
    answers(async (_args, { mcpReq: { signal } }) => {
      started.open();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      throw new Error("stopped");
    });
    const client = await connect(server());
    const leaving = new AbortController();
    const call = { ...charge(5), _meta: { idempotency_key: KEY } };
    const first = client.callTool(call, { signal: leaving.signal });
    first.catch(() => {});
    await started.opened;
    leaving.abort();
    await expect(first).rejects.toThrow();
    await vi.waitFor(async () => expect((await guard.listUnknown()).records).toHaveLength(1));
    const again = await client.callTool(call);
    expect(again._meta).toMatchObject({ nevertwice: { code: "unknown", retryable: false } });
  });

  it("waits for a running call, then refuses with retryAfterMs", async () => {
    const { server, runs, answers } = shop({ waitMs: 20 });
    const [started, mayEnd] = [gate(), gate()];
    answers(async () => {
      started.open();
      await mayEnd.opened;
      return text("paid");
    });
    const client = await connect(server());
    const call = { ...charge(5), _meta: { idempotency_key: KEY } };
    const first = client.callTool(call);
    await started.opened;
    const second = await client.callTool(call);
    expect(second.isError).toBe(true);
    expect(second._meta).toEqual({ nevertwice: { code: "pending", retryable: true, retryAfterMs: 1_000 } });
    mayEnd.open();
    await first;
    expect((await client.callTool(call))._meta).toMatchObject({ replayed: true });
    expect(runs()).toBe(1);
  });

  it("does not run while the store cannot answer", async () => {
    const store = faultyStore(memoryStore());
    const { server, runs } = shop({ storeTimeoutMs: 50 }, { store });
    const client = await connect(server());
    store.setRates({ refuse: 1 });
    const refused = await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    expect(refused._meta).toMatchObject({ nevertwice: { code: "unavailable", retryable: true } });
    expect(runs()).toBe(0);
    store.setRates({});
  });

  it("runs again once the retention is over", async () => {
    const clock = manualClock();
    const { server, runs } = shop({ retentionMs: 60_000 }, { store: memoryStore({ clock }) });
    const client = await connect(server());
    const call = { ...charge(5), _meta: { idempotency_key: KEY } };
    await client.callTool(call);
    clock.advance(59_999);
    await client.callTool(call);
    expect(runs()).toBe(1);
    clock.advance(1);
    await client.callTool(call);
    expect(runs()).toBe(2);
  });

  it("runs a call without a key only with required: false, and passes no attempt", async () => {
    const { server, runs, answers } = shop({ required: false });
    const client = await connect(server());
    answers((_args, _context, attempt) =>
      text(attempt === undefined ? "no attempt" : attempt.deriveKey("psp")),
    );
    expect((await client.callTool(charge(5))).content).toEqual([{ type: "text", text: "no attempt" }]);
    await client.callTool(charge(5));
    expect(runs()).toBe(2);
    const keyed = await client.callTool(charge(5, { idempotency_key: KEY }));
    expect(keyed.content).toEqual([{ type: "text", text: expect.stringMatching(/^[\w-]{43}$/) }]);
  });

  it("keeps the keys of two owners apart, and refuses a call without an owner", async () => {
    const { server, runs } = shop({ scope: ({ mcpReq }) => mcpReq._meta?.user as string | undefined });
    const client = await connect(server());
    const call = (_meta: object) =>
      client.callTool({ ...charge(5), _meta: { idempotency_key: KEY, ..._meta } });
    await call({ user: "alice" });
    await call({ user: "bob" });
    await call({ user: "alice" });
    expect(runs()).toBe(2);
    for (const anonymous of [{}, { user: "" }])
      expect((await call(anonymous))._meta).toMatchObject({ nevertwice: { code: "scope-missing" } });
    expect(runs()).toBe(2);
  });

  it("refuses with not-kept if the answer was too large to store, and does not run again", async () => {
    const { server, runs, answers } = shop({ maxOutcomeBytes: 64 });
    const client = await connect(server());
    answers(() => text("x".repeat(100)));
    const call = { ...charge(5), _meta: { idempotency_key: KEY } };
    expect((await client.callTool(call)).isError).toBeUndefined();
    expect((await client.callTool(call))._meta).toMatchObject({ nevertwice: { code: "not-kept" } });
    expect(runs()).toBe(1);
  });

  it("passes an error of the tool on unchanged, even a NevertwiceError", async () => {
    const { server, answers, guard } = shop();
    const client = await connect(server());
    answers(() => guard.run({ operation: "inner", key: "" }, () => text("never")));
    const failed = await client.callTool({ ...charge(5), _meta: { idempotency_key: KEY } });
    expect(failed).toMatchObject({ isError: true });
    expect(failed._meta).toBeUndefined();
  });
});

describe("the handler", () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });

  it("fits a tool without arguments, whose handler gets only the context", async () => {
    let runs = 0;
    const tool = idempotentTool(guard, { operation: "tick", scope: "anyone" });
    const server = new McpServer({ name: "clock", version: "1.0.0" });
    server.registerTool(
      "tick",
      {},
      tool.handlerWithoutArguments((_context, attempt) => text(`${++runs} ${attempt.number}`)),
    );
    const client = await connect(server);
    await client.callTool({ name: "tick", _meta: { idempotency_key: "t" } });
    const again = await client.callTool({ name: "tick", _meta: { idempotency_key: "t" } });
    expect(again.content).toEqual([{ type: "text", text: "1 1" }]);
  });

  it("fits what registerTool takes", () => {
    const tool = idempotentTool(guard, { operation: "typed", scope: "anyone" });
    const handler: ToolCallback = tool.handlerWithoutArguments(() => text("typed"));
    expect(handler).toBeTypeOf("function");
    const server = new McpServer({ name: "typed", version: "1.0.0" });
    const inputSchema = fromJsonSchema<{ amount: number }>({ type: "object" });
    server.registerTool(
      "typed",
      { inputSchema },
      tool.handler((args, context, attempt) => {
        expectTypeOf(args).toEqualTypeOf<{ amount: number }>();
        expectTypeOf(context).toEqualTypeOf<ServerContext>();
        expectTypeOf(attempt).toEqualTypeOf<Attempt>();
        return text("typed");
      }),
    );
    idempotentTool(guard, { operation: "typed", scope: "anyone", required: false }).handler(
      (_args, _context, attempt) => {
        expectTypeOf(attempt).toEqualTypeOf<Attempt | undefined>();
        return text("typed");
      },
    );
  });

  it("reads the context of the server's version 1 too", async () => {
    let runs = 0;
    const tool = idempotentTool(guard, { operation: "v1", scope: ({ authInfo }) => authInfo?.clientId });
    const handler = tool.handler((args: { amount: number }) => text(`${args.amount} ${++runs}`));
    const context = {
      _meta: { idempotency_key: "k" },
      signal: new AbortController().signal,
      authInfo: { token: "t", clientId: "c", scopes: [] },
      requestId: 1,
    };
    await handler({ amount: 1 }, context);
    const retry = { ...context, requestId: 2 };
    const again = await handler({ amount: 1 }, retry);
    expect(again).toEqual({ ...text("1 1"), _meta: { replayed: true } });
  });

  it.each([
    ["operation is missing", { scope: "anyone" }],
    ["scope is missing", { operation: "charge" }],
    ["scope must be a function", { operation: "charge", scope: "everyone" }],
    ["key must be the place of the key", { operation: "charge", scope: "anyone", key: "idempotency_key" }],
    [
      "key must be the place of the key",
      { operation: "charge", scope: "anyone", key: { argument: "meta..key" } },
    ],
    ["keyPattern must be", { operation: "charge", scope: "anyone", keyPattern: /x/g }],
    ["refusal is", { operation: "charge", scope: "anyone", refusal: "throw" }],
    ['no option called "keepError"', { operation: "charge", scope: "anyone", keepError: true }],
    [
      "contradict each other",
      { operation: "c", scope: "anyone", onLapsed: "hold", onUnavailable: "proceed" },
    ],
  ])("refuses bad options: %s", (problem, options) => {
    expect(() => idempotentTool(guard, options as never)).toThrow(problem);
  });
});

describe("annotations", () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const hint = (options: object) =>
    idempotentTool(guard, { operation: "charge", scope: "anyone", ...options }).annotations().idempotentHint;

  it.each([
    ["every call has its key among its arguments", { key: { argument: "idempotency_key" } }],
    ["all arguments are the key", { key: "arguments" }],
    ["all arguments are the key, required or not", { key: "arguments", required: false }],
  ])("set idempotentHint where %s", (_why, options) => {
    expect(hint(options)).toBe(true);
  });

  it.each([
    ["a key may be in _meta, and so another one with the same arguments", {}],
    ["the key is in _meta", { key: { meta: "idempotency_key" } }],
    ["the key may be left out", { key: { argument: "idempotency_key" }, required: false }],
    ["a function finds the key who knows where", { key: () => "k" }],
    ["a call runs unguarded without the store", { key: "arguments", onUnavailable: "proceed" }],
  ])("do not set idempotentHint where %s", (_why, options) => {
    expect(hint(options)).toBe(false);
  });

  it("keep the given annotations, including an idempotentHint", async () => {
    const { server } = shop({ key: { argument: "idempotency_key" } });
    const { tools } = await (await connect(server())).listTools();
    expect(tools[0]?.annotations).toEqual({ idempotentHint: true, destructiveHint: false });
    const tool = idempotentTool(guard, { operation: "put", scope: "anyone" });
    expect(tool.annotations({ idempotentHint: true, title: "Put" })).toEqual({
      idempotentHint: true,
      title: "Put",
    });
  });
});
