/** A server in memory, and calls to it without a socket. */
import { afterEach } from "vitest";
import type { AccessRequest } from "../src/access.ts";
import type { ServerConfig } from "../src/config.ts";
import { createServer, type NevertwiceServer } from "../src/server.ts";

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | number | undefined>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the type of the body.
  readonly body: any;
}

export interface Calling {
  readonly token?: string | undefined;
  readonly key?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The client address; default 127.0.0.1. */
  readonly from?: string;
}

export type Call = (address: string, calling?: Calling) => Promise<Reply>;

export interface Scene {
  readonly server: NevertwiceServer;
  /** `call("POST /v1/holds", …)` */
  readonly call: Call;
  token(request: Partial<AccessRequest>): Promise<string>;
}

const opened: NevertwiceServer[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((server) => server.close()));
});

export async function sceneOf(config: Partial<ServerConfig> = {}): Promise<Scene> {
  const server = await createServer({ store: "memory:", logLevel: "silent", ...config });
  opened.push(server);
  return {
    server,
    call: (address, calling) => callOn(server, address, calling),
    async token(request) {
      const { token } = await server.context.access.create({ name: "shop", role: "service", ...request });
      return token;
    },
  };
}

async function callOn(
  { app }: NevertwiceServer,
  address: string,
  { token, key, body, headers, from }: Calling = {},
): Promise<Reply> {
  const [method = "", url = ""] = address.split(" ");
  const answer = await app.inject({
    method: method as "GET",
    url,
    ...(from !== undefined && { remoteAddress: from }),
    headers: {
      host: "127.0.0.1:4747",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(key !== undefined && { "idempotency-key": key }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(body !== undefined && { payload: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const isJson = String(answer.headers["content-type"]).includes("json");
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: answer.body,
    body: isJson && answer.body !== "" ? JSON.parse(answer.body) : undefined,
  };
}
