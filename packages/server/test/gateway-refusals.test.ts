/** Tests that every refusal has the shape of the route's profile, as real SDKs read it: none may resolve as a success. */
import type { IncomingMessage, RequestListener } from "node:http";
import { ERROR_CODES, type ErrorCode, NevertwiceError } from "nevertwice";
import type { ProfileName } from "nevertwice/http";
import { describe, expect, test } from "vitest";
import type { ServerConfig } from "../src/config.ts";
import type { GatewayRule } from "../src/gateway/gateway-rules.ts";
import { createRefusals } from "../src/gateway/refusals.ts";
import { completeChat, createCharge, createMessage, readCharge, type SdkCall } from "./gateway/sdks.ts";
import { gate, gatewayBefore, raw, read, type Stage, send, serviceOn } from "./gateway/stage.ts";

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];

const PROFILES = [
  "ietf",
  "stripe-v1",
  "stripe-v2",
  "acp",
  "ucp",
  "adcp",
  "x402",
  "zalando",
  "oasis",
] as const;

const rule = (profile: ProfileName, more: Partial<GatewayRule> = {}): GatewayRule => ({
  path: "/*",
  methods: ["POST"],
  required: false,
  scope: "anyone",
  onUpstreamLost: "unknown",
  profile,
  ...more,
});

/** What a client of each profile finds in the body of a failure. */
const SHAPES: Record<ProfileName, object> = {
  ietf: {
    type: expect.any(String),
    title: expect.any(String),
    status: expect.any(Number),
    code: expect.any(String),
  },
  "stripe-v1": { error: { type: expect.any(String), message: expect.any(String) } },
  "stripe-v2": { error: { type: expect.any(String), message: expect.any(String) } },
  acp: { type: expect.any(String), code: expect.any(String), message: expect.any(String) },
  ucp: { code: expect.any(String), content: expect.any(String) },
  adcp: {
    status: "failed",
    adcp_error: { code: expect.any(String) },
    errors: [{ code: expect.any(String) }],
  },
  x402: { type: expect.any(String), status: expect.any(Number), code: expect.any(String) },
  zalando: { type: expect.any(String), status: expect.any(Number), code: expect.any(String) },
  oasis: { type: expect.any(String), status: expect.any(Number), code: expect.any(String) },
};

/** After these, the same request may succeed. */
const RETRYABLE: ReadonlySet<ErrorCode> = new Set([
  "request-timeout",
  "pending",
  "quota-exceeded",
  "lease-lost",
  "upstream-unreachable",
  "unavailable",
  "store-full",
  "guard-closed",
] as const);

describe.each(PROFILES)("with the profile %s", (profile) => {
  const refusals = createRefusals([rule(profile, { path: "/v1/*" }), rule("ietf", { path: "/other" })]);
  const refused = (code: ErrorCode, url = "/v1/charges", method = "POST") => {
    const headers = { host: "localhost", "idempotency-key": "k1" };
    const req = { method, url, headers } as unknown as IncomingMessage;
    const [head = "", body = ""] = refusals.raw(req, new NevertwiceError(code, "why.")).split("\r\n\r\n");
    return { head: head.toLowerCase(), body: JSON.parse(body) as unknown };
  };

  test.each(CODES)("%s has its shape, and says whether a retry can help", (code) => {
    const { head, body } = refused(code);
    expect(body).toMatchObject(SHAPES[profile]);
    const header = profile.startsWith("stripe") ? "stripe-should-retry" : "x-should-retry";
    expect(head).toContain(`\r\n${header}: ${RETRYABLE.has(code)}`);
  });

  test("a method that no rule names gets the shape of its path", () => {
    expect(refused("upstream-lost", "/v1/charges/1", "GET").body).toMatchObject(SHAPES[profile]);
  });

  test("another path gets the shape of its own rule", () => {
    expect(refused("upstream-lost", "/other").body).toMatchObject({ code: "upstream-lost" });
  });
});

test("acp gets its key back, and oasis learns that the work may have been done", () => {
  const raw = (profile: ProfileName) =>
    createRefusals([rule(profile)]).raw(
      {
        method: "POST",
        url: "/a",
        headers: { host: "a", "idempotency-key": "k1" },
      } as unknown as IncomingMessage,
      new NevertwiceError("upstream-lost", "lost."),
    );
  expect(raw("acp")).toContain("\r\nidempotency-key: k1\r\n");
  expect(raw("oasis")).toContain("\r\nrepeatability-result: accepted\r\n");
});

test("a request that cannot be read gets the shape that all rules share", async () => {
  const { port } = await gatewayBefore(1, { routes: [rule("stripe-v1", { path: "/v1/*" })] });
  expect(await raw(port, "POST /v1/charges HTTP/1.1\r\nBad Header: 1\r\n\r\n")).toContain('{"error":{');
  const mixed = await gatewayBefore(1, { routes: [rule("stripe-v1", { path: "/v1/*" }), rule("ucp")] });
  expect(await raw(mixed.port, "nonsense\r\n\r\n")).toContain('"code":"request-invalid"');
});

const CALLS: readonly (readonly [name: string, profile: ProfileName, call: SdkCall])[] = [
  ["stripe, version 1", "stripe-v1", createCharge],
  ["stripe, version 2", "stripe-v2", createCharge],
  ["openai", "ietf", completeChat],
  ["@anthropic-ai/sdk", "ietf", createMessage],
];

describe.each(CALLS)("the SDK %s", (_, profile, call) => {
  /** Calls through a gateway, and returns how the call ended and how often the service was reached. */
  async function calling(
    listener: RequestListener,
    {
      route,
      config,
    }: { readonly route?: Partial<GatewayRule>; readonly config?: Partial<ServerConfig> } = {},
  ) {
    let effects = 0;
    const upstream = await serviceOn(async (req, res) => {
      await read(req).catch(() => "");
      effects++;
      listener(req, res);
    });
    const stage = await gatewayBefore(upstream, { routes: [rule(profile, route)], ...config });
    let tries = 0;
    stage.gateway.server.on("request", () => tries++);
    const run = (key = "k", retries = 0) =>
      call({ port: stage.port, key, retries }).then(
        () => "resolved",
        (error: { readonly status?: number; readonly statusCode?: number }) =>
          error.statusCode ?? error.status ?? String(error),
      );
    return { run, stage, counts: () => ({ effects, tries }) };
  }

  test("rejects every code that the gateway can answer", async () => {
    const refusals = createRefusals([rule(profile)]);
    let code: ErrorCode = "pending";
    const port = await serviceOn((_req, res) => refusals.answer(res, new NevertwiceError(code, "why.")));
    for (code of CODES) await expect(call({ port, key: "k" }), code).rejects.toThrow();
  });

  test("rejects a lost service with one effect, although it may try again", async () => {
    const { run, counts } = await calling((req) => req.socket.destroy());
    expect(await run("k", 2)).toBe(502);
    expect(counts()).toEqual({ effects: 1, tries: 1 });
    expect(await run("k", 2)).toBe(409);
    expect(counts()).toEqual({ effects: 1, tries: 2 });
  });

  test("rejects a service that cannot be reached, and tries again", async () => {
    const stage = await gatewayBefore(1, { routes: [rule(profile)] });
    let tries = 0;
    stage.gateway.server.on("request", () => tries++);
    await expect(call({ port: stage.port, key: "k", retries: 1 })).rejects.toMatchObject({
      [profile.startsWith("stripe") ? "statusCode" : "status"]: 503,
    });
    expect(tries).toBe(2);
  });

  const answer: RequestListener = (_req, res) => {
    res.setHeader("Content-Type", "application/json");
    res.end('{"id":"ch_1"}');
  };

  test("rejects an unknown owner, a body that is too large, a reached quota and a foreign host", async () => {
    const route = { scope: { header: "x-tenant" } } as const;
    expect(await (await calling(answer, { route })).run()).toBe(401);
    expect(await (await calling(answer, { route: { maxBodyBytes: 3 } })).run()).toBe(413);
    const limited = await calling(answer, { config: { quotaTotalKeys: 1 } });
    expect([await limited.run("k1"), await limited.run("k2")]).toEqual(["resolved", 429]);
    const named = await calling(answer);
    const said = await send(named.stage.port, { path: "/v1/charges", headers: { Host: "evil.example" } });
    expect([said.status, JSON.parse(said.text)]).toMatchObject([403, SHAPES[profile]]);
  });

  test("rejects requests of a gateway that is closing", async () => {
    const started = gate();
    const { run, stage } = await calling((req) => {
      started.resolve();
      setTimeout(() => req.socket.destroy(), 50);
    });
    const first = run("k");
    await started.promise;
    const [outcome] = await Promise.all([first, stage.gateway.close()]);
    expect(outcome).toBe(502);
  });

  test("keeps a 500 that its profile keeps, and does not try again", async () => {
    const { run, counts } = await calling(
      (_req, res) => {
        res.writeHead(500, { "Content-Type": "application/json", "Stripe-Should-Retry": "true" });
        res.end('{"error":{"type":"api_error","message":"no"}}');
      },
      { route: { keep: { "5xx": "keep" } } },
    );
    expect(await run("k", 1)).toBe(500);
    expect(counts()).toEqual({ effects: 1, tries: 1 });
    expect(await run("k", 1)).toBe(500);
    expect(counts()).toEqual({ effects: 1, tries: 2 });
  });
});

test("a read through the stripe SDK rejects when the service is lost, too", async () => {
  const lost = await gatewayBefore(await serviceOn((req) => req.socket.destroy()), {
    routes: [rule("stripe-v1", { path: "/v1/*" })],
  });
  await expect(readCharge({ port: lost.port, key: "k" })).rejects.toMatchObject({ statusCode: 502 });
});

test("a failure of the service's own that has no member error resolves in the stripe SDK, as docs/profiles.md warns", async () => {
  const upstream = await serviceOn(async (req, res) => {
    await read(req);
    res.writeHead(500, { "Content-Type": "application/json" }).end('{"statusCode":500,"message":"no"}');
  });
  const { port } = await gatewayBefore(upstream, { routes: [rule("stripe-v1")] });
  await expect(createCharge({ port, key: "k" })).resolves.toMatchObject({ statusCode: 500 });
});

/** Sends a request twice and returns both statuses, and how often the service ran. */
async function twice({ send }: Pick<Stage, "send">, path: string, headers = {}) {
  const first = await send({ key: "k", path, headers });
  const second = await send({ key: "k", path, headers });
  return [first.status, second.status, second.headers["idempotent-replayed"]];
}

describe("the gateway keeps what the profile keeps", () => {
  const answering = (status: number) =>
    serviceOn(async (req, res) => {
      await read(req);
      res.writeHead(status, { "Content-Type": "application/json" }).end("{}");
    });
  test.each([
    ["stripe-v1", 500, "true"],
    ["stripe-v1", 404, undefined],
    ["stripe-v2", 402, undefined],
    ["acp", 500, undefined],
    ["zalando", 404, "true"],
    ["ietf", 402, "true"],
    ["ietf", 500, undefined],
    ["ietf", 503, undefined],
  ] as const)("%s: a %i is replayed: %s", async (profile, status, replayed) => {
    const stage = await gatewayBefore(await answering(status), { routes: [rule(profile)] });
    expect(await twice(stage, "/a")).toEqual([status, status, replayed]);
  });

  test.each(
    (["ietf", "stripe-v1", "stripe-v2", "acp", "ucp", "zalando"] as const).flatMap((profile) =>
      ([502, 504] as const).map((status) => [profile, status] as const),
    ),
  )("%s: a %i of a proxy behind it holds the key, since the work may be done", async (profile, status) => {
    const { send } = await gatewayBefore(await answering(status), { routes: [rule(profile)] });
    const first = await send({ key: "k" });
    const header = profile.startsWith("stripe") ? "stripe-should-retry" : "x-should-retry";
    expect([first.status, first.headers[header]]).toEqual([status, "false"]);
    const again = await send({ key: "k" });
    expect([again.status, again.headers["idempotent-replayed"]]).toEqual([409, undefined]);
  });

  test("a route that says so keeps a 502 that the service answers itself", async () => {
    const { send } = await gatewayBefore(await answering(502), {
      routes: [rule("stripe-v1", { keep: { 502: "keep" } })],
    });
    expect(await twice({ send }, "/a")).toEqual([502, 502, "true"]);
  });
});
