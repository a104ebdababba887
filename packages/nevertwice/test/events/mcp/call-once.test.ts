/** A call that keeps its key over its retries, with the official client and lost answers. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Server } from "@modelcontextprotocol/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { callOnce } from "../../../src/events/mcp.ts";
import { type Charge, connect, listen, shop, text } from "../mcp-scene.ts";

const FAST = { baseMs: 0 };

/** A client whose first calls reach the server, but whose answers are lost. */
async function losing(
  url: URL,
  answers: number,
  refusal?: Response,
): Promise<{ client: Client; sent: string[] }> {
  const sent: string[] = [];
  let left = answers;
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: async (input, init) => {
      const answer = await fetch(input, init);
      const body = String(init?.body ?? "");
      if (!body.includes('"tools/call"')) return answer;
      sent.push(body);
      if (left-- <= 0) return answer;
      await answer.text();
      if (refusal !== undefined) return refusal.clone();
      throw new TypeError("connection reset");
    },
  });
  const client = new Client({ name: "agent", version: "1.0.0" });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { client, sent };
}

const CALL = { name: "charge", arguments: { amount: 5 } };

describe("callOnce", () => {
  it.each([
    { meta: "idempotency_key" },
    { argument: "idempotency_key" },
    { argument: "meta.idempotency-key" },
  ])("sends the same key with every try, in %o, and gets the answer of the try that ran", async (place) => {
    const { server, runs } = shop();
    const { client, sent } = await losing(await listen(server), 2);
    const answer = await callOnce(client, CALL, { place, retry: FAST });
    expect(answer.content).toEqual([{ type: "text", text: "receipt 1 for 5" }]);
    expect(runs()).toBe(1);
    expect(sent).toHaveLength(3);
    expect(new Set(sent.map((body) => JSON.parse(body).id)).size).toBe(3);
    const keys = sent.map((body) => /"idempotency[_-]key":"([0-9a-f-]{36})"/.exec(body)?.[1]);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toBeTypeOf("string");
  });

  it("creates a new key for a new call, and uses a key that is given", async () => {
    const { server, runs } = shop();
    const client = await connect(server());
    const place = { meta: "idempotency_key" };
    await callOnce(client, CALL, { place });
    await callOnce(client, CALL, { place });
    expect(runs()).toBe(2);
    await callOnce(client, CALL, { place, key: "stored" });
    await callOnce(client, CALL, { place, key: "stored" });
    expect(runs()).toBe(3);
  });

  it("repeats a call that is pending", async () => {
    const { server, runs, answers } = shop({ onPending: "reject" });
    let finish = () => {};
    answers(async () => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      return text("paid");
    });
    const client = await connect(server());
    const first = client.callTool({ ...CALL, _meta: { idempotency_key: "k" } });
    const second = callOnce(client, CALL, { place: { meta: "idempotency_key" }, key: "k" });
    const third = await client.callTool({ ...CALL, _meta: { idempotency_key: "k" } });
    expect(third.isError).toBe(true);
    finish();
    await first;
    expect((await second)._meta).toMatchObject({ replayed: true });
    expect(runs()).toBe(1);
  });

  it("gives up after its retries, with the last error", async () => {
    const { server, runs } = shop();
    const { client, sent } = await losing(await listen(server), 99);
    const options = { place: { meta: "idempotency_key" }, retry: { ...FAST, max: 2 } };
    await expect(callOnce(client, CALL, options)).rejects.toThrow();
    expect(sent).toHaveLength(3);
    expect(runs()).toBe(1);
  });

  it.each([
    [401, 1],
    [429, 2],
    [503, 2],
  ])("treats HTTP status %i correctly: %i tries", async (status, tries) => {
    const { server } = shop();
    const refusal = new Response(null, { status });
    const { client, sent } = await losing(await listen(server), 1, refusal);
    const call = callOnce(client, CALL, { place: { meta: "idempotency_key" }, retry: FAST });
    await call.catch(() => {});
    expect(sent).toHaveLength(tries);
  });

  it("does not repeat a call that was answered", async () => {
    const { server, runs, answers } = shop();
    const client = await connect(server());
    answers(() => ({ ...text("declined"), isError: true }));
    const answer = await callOnce(client, CALL, { place: { meta: "idempotency_key" }, retry: FAST });
    expect(answer).toMatchObject({ isError: true });
    expect(runs()).toBe(1);
  });

  it("throws a JSON-RPC error immediately, unless it is retryable", async () => {
    const { tool, run, runs } = shop({ refusal: "rpc-error", onPending: "reject" });
    const server = new Server({ name: "shop", version: "1.0.0" }, { capabilities: { tools: {} } });
    const handler = tool.handler(run);
    let calls = 0;
    server.setRequestHandler("tools/call", ({ params }, context) => {
      calls++;
      if (calls === 2) throw Object.assign(new Error("busy"), { code: -32_000, data: { retryable: true } });
      return handler(params.arguments as unknown as Charge, context);
    });
    const client = await connect(server);
    const options = { place: { meta: "idempotency_key" }, key: "k", retry: FAST };
    await callOnce(client, CALL, options);
    expect(calls).toBe(1);
    await callOnce(client, CALL, options);
    expect(calls).toBe(3);
    const other = { ...CALL, arguments: { amount: 6 } };
    await expect(callOnce(client, other, options)).rejects.toMatchObject({ code: -32_000 });
    expect(calls).toBe(4);
    expect(runs()).toBe(1);
  });

  it("stops when the caller's signal fires", async () => {
    const { server } = shop();
    const { client, sent } = await losing(await listen(server), 99);
    const leaving = new AbortController();
    let tries = 0;
    const counting = {
      callTool(...[params, options]: Parameters<Client["callTool"]>) {
        tries++;
        return client.callTool(params, options);
      },
    };
    const call = callOnce(counting, CALL, {
      place: { meta: "idempotency_key" },
      retry: { baseMs: 60_000, capMs: 60_000 },
      request: { signal: leaving.signal },
    });
    call.catch(() => {});
    await expect.poll(() => sent.length).toBe(1);
    leaving.abort();
    await expect(call).rejects.toThrow();
    expect(tries).toBe(2);
  });

  it("requires the place of the key", async () => {
    const { server } = shop();
    const client = await connect(server());
    await expect(callOnce(client, CALL, {} as never)).rejects.toThrow("place is missing");
    await expect(callOnce(client, CALL, { place: { header: "x" } } as never)).rejects.toThrow(
      "place must be the place of the key",
    );
  });
});
