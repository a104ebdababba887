/** A shop with one tool that charges, served by the official server and called by the official client. */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  type CallToolResult,
  createMcpHandler,
  fromJsonSchema,
  InMemoryTransport,
  type InputRequiredResult,
  McpServer,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { onTestFinished } from "vitest";
import type { Attempt } from "../../src/core/attempt.ts";
import type { GuardOptions } from "../../src/core/engine.ts";
import { idempotentTool, type ToolOptions } from "../../src/events/mcp.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";

export interface Charge {
  readonly amount: number;
  readonly idempotency_key?: string;
  readonly meta?: Record<string, unknown>;
}

type Work = (
  args: Charge,
  context: ServerContext,
  attempt: Attempt | undefined,
) => CallToolResult | InputRequiredResult | Promise<CallToolResult | InputRequiredResult>;

const SCHEMA = fromJsonSchema<Charge>({
  type: "object",
  properties: { amount: { type: "number" }, idempotency_key: { type: "string" }, meta: { type: "object" } },
  required: ["amount"],
});

export function text(words: string): CallToolResult {
  return { content: [{ type: "text", text: words }] };
}

export function shop(
  options: Partial<ToolOptions<ServerContext, boolean>> = {},
  guardOptions: Partial<GuardOptions> = {},
) {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0, ...guardOptions });
  onTestFinished(async () => void (await guard.close()));
  const calls: ServerContext[] = [];
  let work: Work = ({ amount }) => text(`receipt ${calls.length} for ${amount}`);
  const run: Work = (args, context, attempt) => {
    calls.push(context);
    return work(args, context, attempt);
  };
  const tool = idempotentTool<ServerContext, boolean>(guard, {
    operation: "charge",
    scope: "anyone",
    ...options,
  });

  function server(): McpServer {
    const mcp = new McpServer({ name: "shop", version: "1.0.0" });
    const config = { inputSchema: SCHEMA, annotations: tool.annotations({ destructiveHint: false }) };
    mcp.registerTool("charge", config, tool.handler(run));
    return mcp;
  }

  return {
    guard,
    tool,
    server,
    run,
    runs: () => calls.length,
    calls,
    answers(next: Work) {
      work = next;
    },
  };
}

/** A client that is connected to a server in this process. */
export async function connect(server: McpServer | Server): Promise<Client> {
  const [near, far] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: "agent", version: "1.0.0" });
  await server.connect(far);
  await client.connect(near);
  onTestFinished(() => client.close());
  return client;
}

/** Serves over a real socket, with a new server for every request. */
export async function listen(make: () => McpServer): Promise<URL> {
  const handler = createMcpHandler(make);
  const http = createAdaptorServer({ fetch: (request) => handler.fetch(request) });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  onTestFinished(async () => {
    await handler.close();
    if ("closeAllConnections" in http) http.closeAllConnections();
    http.close();
  });
  return new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`);
}

/** A client over HTTP, of the protocol's newest revision. */
export async function dial(url: URL): Promise<Client> {
  const client = new Client(
    { name: "agent", version: "1.0.0" },
    { versionNegotiation: { mode: "auto" }, capabilities: { elicitation: { form: {} } } },
  );
  await client.connect(new StreamableHTTPClientTransport(url));
  onTestFinished(() => client.close());
  return client;
}
