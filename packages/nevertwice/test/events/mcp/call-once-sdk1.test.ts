/** Tests `callOnce` with the client of SDK 1, whose errors and arguments differ from those of SDK 2. */
import { Client } from "@modelcontextprotocol/sdk-v1/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk-v1/client/streamableHttp.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { callOnce } from "../../../src/events/mcp.ts";
import { listen, shop } from "../mcp-scene.ts";

const CALL = { name: "charge", arguments: { amount: 5 } };
const OPTIONS = { place: { meta: "idempotency_key" }, retry: { baseMs: 0 } };

/** A client whose first tool call reaches the server; `lose` says what becomes of its answer. */
async function clientOf(url: URL, lose: (client: Client, signal: AbortSignal) => Promise<Response>) {
  const sent: string[] = [];
  const client = new Client({ name: "agent", version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: async (input, init) => {
      const answer = await fetch(input, init);
      const body = String(init?.body ?? "");
      if (!body.includes('"tools/call"')) return answer;
      sent.push(body);
      if (sent.length > 1) return answer;
      await answer.text();
      return lose(client, init?.signal as AbortSignal);
    },
  });
  await client.connect(transport as Parameters<Client["connect"]>[0]);
  onTestFinished(() => client.close());
  return { client, sent };
}

const never = () => new Promise<Response>(() => {});

describe("callOnce with SDK 1", () => {
  it("repeats a call that timed out in the client, with the options where SDK 1 expects them", async () => {
    const { server, runs } = shop();
    const { client, sent } = await clientOf(await listen(server), never);
    const answer = await callOnce(client, CALL, { ...OPTIONS, request: { timeout: 1_500 } });
    expect(answer.content).toEqual([{ type: "text", text: "receipt 1 for 5" }]);
    expect(sent.length).toBeGreaterThan(1);
    expect(runs()).toBe(1);
  });

  it.each([
    [-32_000, "Connection closed"],
    [-32_001, "Request timed out"],
  ])("repeats a call that the client ended with %i, and not the server", async (code, message) => {
    const { server, runs } = shop();
    const { client } = await clientOf(await listen(server), never);
    const call = client.callTool.bind(client);
    let tries = 0;
    client.callTool = async (params, schema = undefined, options = undefined) => {
      if (tries++ > 0) return call(params, schema, options);
      throw Object.assign(new Error(message), { code });
    };
    const lost = callOnce(client, CALL, { ...OPTIONS, request: { timeout: 1_500 } });
    await lost;
    expect(runs()).toBe(1);
  });

  it("does not repeat a refusal of the server with the same code", async () => {
    const { server } = shop();
    const { client } = await clientOf(await listen(server), never);
    let tries = 0;
    client.callTool = async (_params) => {
      tries++;
      throw Object.assign(new Error("used for another call"), {
        code: -32_000,
        data: { code: "conflict", retryable: false },
      });
    };
    await expect(callOnce(client, CALL, OPTIONS)).rejects.toThrow("used for another call");
    expect(tries).toBe(1);
  });
});
