/** Tests the security of the server: headers, tokens, origins and limits. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import type { ApiRoute } from "../src/api/route.ts";
import type { NevertwiceServer } from "../src/server.ts";
import { type Scene, sceneOf } from "./calling.ts";
import { secretIn } from "./token-secret.ts";

const HOLD = { resource: "room-7", requester: "ann", durationMs: 60_000 };
const PLACE = "POST /v1/holds";
const PARAMETERS: Readonly<Record<string, string>> = { id: "0".repeat(36), name: "nothing" };

function addressOf({ method, path }: ApiRoute): string {
  return `${method} ${path.replace(/\{(\w+)\}/g, (_, name: string) => PARAMETERS[name] ?? "x")}`;
}

/** The response to raw bytes on a socket. */
async function spoken({ server }: Scene, lines: readonly string[], body = ""): Promise<string> {
  const { url } = await server.listen();
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    let heard = "";
    socket.setEncoding("utf8").on("data", (text) => {
      heard += text;
    });
    socket.on("close", () => resolve(heard)).on("error", reject);
    socket.write([...lines, "Connection: close", "", body].join("\r\n"));
  });
}

const OWN = [
  "/",
  "/healthz",
  "/readyz",
  "/metrics",
  "/openapi.json",
  "/session",
  "/nowhere",
  "/v1/../healthz",
];

const LOCAL = { listen: { host: "127.0.0.1", port: 0 } };

describe("Host and Origin", () => {
  const STRANGE_HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example:4747",
    "localhost:4747@evil.example",
    "localhost:evil",
    "localhost.",
    "2130706433",
    "[::ffff:127.0.0.1]",
  ];
  const STRANGE_ORIGINS = [
    "http://evil.example",
    "null",
    "http://127.0.0.1:9999",
    "https://evil.example:4747",
    "",
  ];

  const everyAddress = ({ routes }: NevertwiceServer) => [
    ...routes.map(addressOf),
    ...OWN.map((path) => `GET ${path}`),
    "OPTIONS /v1/holds",
  ];

  test("every address refuses a foreign Host, health checks and 404 included", async () => {
    const { server, call } = await sceneOf();
    for (const address of everyAddress(server)) {
      const { status, body } = await call(address, { headers: { host: "evil.example" } });
      expect([status, body?.code], address).toEqual([403, "not-authorized"]);
    }
  });

  test("every address refuses a page of another origin", async () => {
    const { server, call } = await sceneOf();
    for (const address of everyAddress(server)) {
      const { status, headers } = await call(address, { headers: { origin: "http://evil.example" } });
      expect(status, address).toBe(403);
      expect(headers["access-control-allow-origin"]).toBeUndefined();
    }
  });

  test("rebinding: a name that only resolves to loopback is refused", async () => {
    const { call } = await sceneOf({
      allowHost: ["Nevertwice.Example.com"],
      accessToken: "0123456789abcdef0123456789abcdef",
    });
    for (const host of STRANGE_HOSTS)
      expect((await call("GET /healthz", { headers: { host } })).status, host).toBe(403);
    for (const host of [
      "localhost",
      "LOCALHOST:1",
      "127.0.0.1:4747",
      "[::1]:4747",
      "nevertwice.example.com",
      "NEVERTWICE.example.com:443",
    ])
      expect((await call("GET /healthz", { headers: { host } })).status, host).toBe(200);
  });

  test("an Origin is accepted only if it equals the host and port of the request", async () => {
    const { call } = await sceneOf();
    for (const origin of STRANGE_ORIGINS)
      expect((await call("GET /healthz", { headers: { origin } })).status, origin).toBe(403);
    expect((await call("GET /healthz", { headers: { origin: "http://127.0.0.1:4747" } })).status).toBe(200);
  });

  test("a malformed address is refused first, and the answer does not repeat it", async () => {
    const { call } = await sceneOf();
    const { status, body } = await call("GET /%zz", { headers: { host: "evil.example" } });
    expect([status, body.code]).toEqual([400, "request-invalid"]);
  });

  test("a request with two Hosts, or none, is refused", async () => {
    for (const hosts of [
      ["Host: evil.example", "Host: localhost"],
      ["Host: localhost", "host: evil.example"],
    ]) {
      const scene = await sceneOf(LOCAL);
      expect(await spoken(scene, ["GET /healthz HTTP/1.1", ...hosts])).toMatch(/^HTTP\/1.1 4/);
    }
    const other = await sceneOf(LOCAL);
    expect(await spoken(other, ["GET /healthz HTTP/1.1"])).toMatch(/^HTTP\/1.1 4/);
  });
});

test("the body of an unauthorized caller is not read", async () => {
  const { call, token } = await sceneOf();
  const auditor = await token({ role: "auditor" });
  expect((await call(PLACE, { body: "{ no json" })).status).toBe(401);
  expect((await call(PLACE, { token: auditor, body: "{ no json" })).status).toBe(403);
});

describe("the rules", () => {
  test("rule 1: a token always has a scope, and a session has its token's", async () => {
    const { server, token } = await sceneOf();
    await expect(token({ scope: "" })).rejects.toThrow("scope must be text");
    const { access } = server.context;
    expect(await access.verify(await token({ name: "shop" }))).toMatchObject({ scope: "shop" });
  });

  test("rule 2: scope and key that join to the same text are two keys", async () => {
    const { call, token } = await sceneOf();
    const [one, two] = [await token({ scope: "a" }), await token({ scope: "a|b" })];
    const place = (by: string, key: string, resource: string) =>
      call(PLACE, { token: by, key, body: { ...HOLD, resource } });
    const answers = [
      await place(one, "b|c", "r1"),
      await place(two, "c", "r2"),
      await place(one, "|b|c", "r3"),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
  });

  test("rule 3: a revoked token gets no replay", async () => {
    const { server, call } = await sceneOf();
    const { token, id } = await server.context.access.create({ name: "shop", role: "service" });
    expect((await call(PLACE, { token, key: "k", body: HOLD })).status).toBe(201);
    await server.context.access.revoke(id);
    const again = await call(PLACE, { token, key: "k", body: HOLD });
    expect([again.status, again.body.id]).toEqual([401, undefined]);
  });

  test("rule 4: the credential decides the owner of a key; a body or header that names one is refused or ignored", async () => {
    const { call, token } = await sceneOf();
    const [one, two] = [
      await token({ name: "one", namespace: "one" }),
      await token({ name: "two", namespace: "two" }),
    ];
    const placed = await call(PLACE, { token: one, key: "k", body: HOLD });
    const headers = { "x-namespace": "one", "x-nevertwice-namespace": "one", "x-forwarded-user": "one" };
    const other = await call(PLACE, { token: two, key: "k", body: HOLD, headers });
    expect(other.status).toBe(201);
    expect(other.body.id).not.toBe(placed.body.id);
    for (const more of [{ scope: "one" }, { namespace: "one" }])
      expect((await call(PLACE, { token: two, key: "k2", body: { ...HOLD, ...more } })).status).toBe(400);
  });

  test("rule 5: a reused key gets a conflict that reveals nothing of the first request", async () => {
    const { call } = await sceneOf();
    await call(PLACE, { key: "k", body: { ...HOLD, requester: "patient-0815" } });
    const { status, text } = await call(PLACE, { key: "k", body: { ...HOLD, requester: "bob", units: 2 } });
    expect(status).toBe(422);
    expect(text).not.toMatch(/0815|60000/);
  });

  test("rules 6 and 16: the same key of another caller neither blocks a caller nor answers it", async () => {
    const { call, token } = await sceneOf();
    const [squatter, me] = [await token({ name: "squatter" }), await token({ name: "me" })];
    await call("POST /v1/resources", { token: me, key: "d", body: { resource: "room-7", capacity: 9 } });
    await call(PLACE, { token: squatter, key: "my-key", body: { ...HOLD, requester: "squatter" } });
    const mine = await call(PLACE, { token: me, key: "my-key", body: HOLD });
    const fresh = await call(PLACE, { token: me, key: "never-used", body: HOLD });
    expect([mine.status, fresh.status]).toEqual([201, 201]);
    expect(Object.keys(mine.body)).toEqual(Object.keys(fresh.body));
    expect(Object.keys(mine.headers)).toEqual(Object.keys(fresh.headers));
  });

  test("rule 8: names from callers never appear in headers", async () => {
    const { call } = await sceneOf();
    const resource = "room\r\nSet-Cookie: a=b";
    const placed = await call(PLACE, { key: "k", body: { ...HOLD, resource } });
    expect(placed.status).toBe(201);
    const read = await call(`GET /v1/resources/${encodeURIComponent(resource)}`);
    expect(read.body.name).toBe(resource);
    for (const { headers } of [placed, read]) expect(headers["set-cookie"]).toBeUndefined();
  });

  test("rule 10: two keys are refused, in one header line or in two", async () => {
    const scene = await sceneOf(LOCAL);
    const body = JSON.stringify(HOLD);
    const heard = await spoken(
      scene,
      [
        "POST /v1/holds HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        `Content-Length: ${body.length}`,
        "Idempotency-Key: one",
        "Idempotency-Key: two",
      ],
      body,
    );
    expect(heard).toMatch(/^HTTP\/1.1 400 [\s\S]*key-invalid/);
    expect((await scene.call(PLACE, { key: "one,two", body: HOLD })).body.code).toBe("key-invalid");
  });

  test("rule 11: a body over the limit is refused by its real bytes, and no key is used up", async () => {
    const scene = await sceneOf(LOCAL);
    const big = JSON.stringify({ ...HOLD, requester: "x".repeat(1_600_000) });
    const whole = await scene.call(PLACE, { key: "k", body: big });
    expect([whole.status, whole.body.code]).toEqual([413, "body-too-large"]);
    const chunks = `${(big.length).toString(16)}\r\n${big}\r\n0\r\n\r\n`;
    const head = [
      "POST /v1/holds HTTP/1.1",
      "Host: localhost",
      "Content-Type: application/json",
      "Idempotency-Key: k",
    ];
    expect(await spoken(scene, [...head, "Transfer-Encoding: chunked"], chunks)).toMatch(/^HTTP\/1.1 413 /);
    expect((await scene.call(PLACE, { key: "k", body: HOLD })).status).toBe(201);
  });

  test("rule 11: a wrong Content-Length, or two of them, is refused", async () => {
    const head = [
      "POST /v1/holds HTTP/1.1",
      "Host: localhost",
      "Content-Type: application/json",
      "Idempotency-Key: k",
    ];
    const body = JSON.stringify(HOLD);
    const smuggled = await sceneOf(LOCAL);
    expect(
      await spoken(
        smuggled,
        [...head, "Content-Length: 5", "Transfer-Encoding: chunked"],
        `5\r\n{"a":\r\n0\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1.1 400 /);
    const twice = await sceneOf(LOCAL);
    expect(
      await spoken(twice, [...head, `Content-Length: ${body.length}`, "Content-Length: 1"], body),
    ).toMatch(/^HTTP\/1.1 400 /);
  });

  test("rule 11: compressed bodies are refused, and a slow request times out", async () => {
    const { server } = await sceneOf();
    const packed = await server.app.inject({
      method: "POST",
      url: "/v1/holds",
      headers: {
        host: "localhost",
        "idempotency-key": "k",
        "content-type": "application/json",
        "content-encoding": "gzip",
      },
      payload: gzipSync(JSON.stringify(HOLD)),
    });
    expect(packed.statusCode).toBe(400);
    expect(server.app.server.requestTimeout).toBe(30_000);
    expect(server.app.server.headersTimeout).toBeGreaterThan(0);
  });

  test("rule 13: a body that would change a prototype is refused, and so is invalid JSON", async () => {
    const { call } = await sceneOf();
    const bodies = [
      '{"__proto__": {"roles": ["operator"]}, "resource": "r", "requester": "a", "durationMs": 1000}',
      '{"constructor": {"prototype": {"polluted": 1}}, "resource": "r", "requester": "a", "durationMs": 1000}',
      '{"resource": {"__proto__": {"polluted": 1}}}',
      `${"[".repeat(200_000)}${"]".repeat(200_000)}`,
      `{"resource":${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}}`,
      "null",
      "[]",
      '"text"',
      "{ no json",
      "",
    ];
    for (const body of bodies) {
      const { status, body: problem } = await call(PLACE, { key: "k", body });
      expect([status, problem.code], body.slice(0, 60)).toEqual([400, "request-invalid"]);
    }
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect((await call(PLACE, { key: "k", body: HOLD })).status).toBe(201);
  });

  test("rule 13: a body of another content type is refused", async () => {
    const { call } = await sceneOf();
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
    ]) {
      const { status } = await call(PLACE, { key: "k", body: HOLD, headers: { "content-type": type } });
      expect(status, type).toBe(400);
    }
  });

  test("rule 17: a request that is refused early is not stored under its key", async () => {
    const { call, token } = await sceneOf();
    const [service, auditor] = [await token({ scope: "s" }), await token({ scope: "s", role: "auditor" })];
    for (const calling of [
      { token: auditor, body: HOLD },
      { token: service, body: { ...HOLD, units: 0 } },
      { token: "nt_0000000000000000_no", body: HOLD },
    ])
      expect((await call(PLACE, { key: "k", ...calling })).status).toBeGreaterThanOrEqual(400);
    expect((await call(PLACE, { token: service, key: "k", body: HOLD })).status).toBe(201);
  });

  test("rule 19: responses forbid caching and content sniffing", async () => {
    const { server, call } = await sceneOf();
    await call(PLACE, { key: "k", body: HOLD });
    const addresses = [
      ...server.routes.filter(({ id }) => id !== "liveStream").map(addressOf),
      ...OWN.map((path) => `GET ${path}`),
      "GET /%zz",
      "POST /nowhere",
      "POST /session",
      "DELETE /session",
      "GET /errors/none",
      "GET /assets/none",
      `GET /v1/resources/${"x".repeat(4_000)}`,
    ];
    for (const address of addresses)
      for (const headers of [{}, { host: "evil.example" }, { accept: "text/html" }]) {
        const { headers: answered } = await call(address, { headers });
        expect(answered["x-content-type-options"], address).toBe("nosniff");
        const isPage = String(answered["content-type"]).startsWith("text/html");
        expect(answered["cache-control"], address).toBe(isPage ? "no-cache" : "no-store");
      }
  });

  test("rule 19: so do responses to input that is not HTTP", async () => {
    for (const lines of [
      ["NONSENSE"],
      ["GET /healthz HTTP/1.1", "Host: localhost", `X-Long: ${"x".repeat(20_000)}`],
    ]) {
      const heard = await spoken(await sceneOf(LOCAL), lines);
      expect(heard).toMatch(/^HTTP\/1.1 4(00|31) /);
      expect(heard).toMatch(/x-content-type-options: nosniff/i);
      expect(heard).toMatch(/application\/problem\+json[\s\S]*"code":"request-invalid"/);
    }
  });

  test("rule 20: the package has no install scripts, and pins each dependency", () => {
    const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
    const hooks = ["preinstall", "install", "postinstall", "prepare"];
    expect(Object.keys(manifest.scripts ?? {}).filter((name) => hooks.includes(name))).toEqual([]);
    for (const [name, version] of Object.entries(manifest.dependencies))
      expect(version, name).toMatch(/^\d+\.\d+\.\d+$/);
  });
});

describe("rule 14: stores treat texts as data", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "nevertwice-security-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const NAMES = [
    "'; DROP TABLE commitments; --",
    '" OR 1=1 --',
    "%",
    "_",
    "a\u0000b",
    "\u0001",
    "\u202e",
    "..",
    "__proto__",
  ];

  async function comeBack({ call }: Scene): Promise<void> {
    for (const [index, resource] of NAMES.entries())
      expect((await call(PLACE, { key: `k${index}`, body: { ...HOLD, resource } })).status, resource).toBe(
        201,
      );
    for (const resource of NAMES) {
      const name = encodeURIComponent(resource);
      const { body } = await call(`GET /v1/holds?resource=${name}`);
      expect(body.rows.map((row: { resource: string }) => row.resource)).toEqual([resource]);
      expect((await call(`GET /v1/resources?after=${name}`)).status, resource).toBe(200);
      expect((await call(`GET /v1/holds?after=${name}`)).status, resource).toBe(200);
    }
  }

  test("SQL and control characters in names are returned unchanged by SQLite", async () => {
    await comeBack(await sceneOf({ store: `sqlite:${join(folder, "a.db")}` }));
  });

  test("SQL and control characters in names are returned unchanged by Postgres", async (context) => {
    await comeBack(await sceneOf({ store: sharedUrl(context, "postgres"), namespace: randomUUID() }));
  });
});

describe("rule 15: logs", () => {
  test("contain no tokens, keys, bodies or addresses, whatever fails", async () => {
    const { server, call, token } = await sceneOf({ logLevel: "debug" });
    const lines: string[] = [];
    const log = server.app.log as unknown as Record<symbol, unknown>;
    const stream = symbolIn(log, "pino.stream");
    log[stream] = { write: (line: string) => lines.push(line) };
    const service = await token({});
    const secret = "k3y-of-the-caller";
    const body = { ...HOLD, resource: "b0dy-text" };
    await call(PLACE, { token: service, key: secret, body });
    await call(PLACE, { token: service, key: secret, body: { ...body, units: 2 } });
    await call(PLACE, { token: `${service}x`, key: secret, body });
    await call(PLACE, { token: service, key: secret, body: '{"b0dy-text": ' });
    await call(`GET /v1/resources/b0dy-text?${secret}=1`, { token: service });
    await call(`GET /nowhere/${secret}?token=${service}`, {
      headers: { cookie: `nevertwice_session=${secret}` },
    });
    const reservations = server.context.holds("default") as object;
    Object.assign(reservations, { placeHold: () => Promise.reject(new TypeError("broken")) });
    expect((await call(PLACE, { token: service, key: secret, body })).body.code).toBe("internal-error");
    const text = lines.join("");
    expect(lines.length).toBeGreaterThanOrEqual(8);
    expect(text).toContain('"route":"/v1/holds"');
    for (const leak of [secret, "b0dy-text", service, secretIn(service)]) expect(text).not.toContain(leak);
  });
});

/** The property names of an object and its prototypes. */
function symbolIn(object: object, description: string): symbol {
  const found = Object.getOwnPropertySymbols(object).find((symbol) => symbol.description === description);
  if (found !== undefined) return found;
  const parent = Object.getPrototypeOf(object);
  if (parent === null) throw new Error(`there is no ${description}`);
  return symbolIn(parent, description);
}

describe("addresses", () => {
  test("path tricks reach no file", async () => {
    const { call, token } = await sceneOf();
    await token({});
    for (const path of [
      "/v1//holds",
      "/V1/HOLDS",
      "/v1/holds/../audit",
      "/v1/holds/..%2f..%2fmetrics",
      "/v1/holds%00",
      "/v1/holds;role=operator",
      "/%2e%2e/%2e%2e/etc/passwd",
      "//evil.example/v1/holds",
      "/..%5c..%5cetc",
    ]) {
      const { status, headers } = await call(`GET ${path}`);
      expect([400, 401, 404], path).toContain(status);
      expect(headers.location, path).toBeUndefined();
    }
  });

  test("no header or query overrides the method", async () => {
    const { call } = await sceneOf();
    const headers = { "x-http-method-override": "POST", "x-method-override": "POST" };
    expect((await call("GET /v1/holds", { headers })).body.rows).toEqual([]);
    expect((await call("GET /v1/holds?_method=POST")).status).toBe(400);
    for (const method of ["PUT", "PATCH", "DELETE"])
      expect((await call(`${method} /v1/holds`)).status, method).toBe(404);
  });

  test("health checks reveal only that the server works, and figures need a token", async () => {
    const { call, token } = await sceneOf();
    const operator = await token({ role: "operator" });
    expect((await call("GET /healthz")).body).toEqual({ status: "ok" });
    expect((await call("GET /readyz")).body).toEqual({ status: "ready" });
    expect((await call("GET /metrics")).status).toBe(401);
    expect((await call("GET /metrics", { token: await token({ role: "service" }) })).status).toBe(403);
    expect((await call("GET /metrics", { token: operator })).status).toBe(200);
  });

  test("a token is taken from Authorization alone", async () => {
    const { call, token } = await sceneOf();
    const operator = await token({ role: "operator" });
    expect((await call(`GET /v1/holds?token=${operator}`)).status).toBe(401);
    expect((await call("GET /v1/holds", { headers: { "x-access-token": operator } })).status).toBe(401);
    expect((await call("GET /v1/holds", { headers: { authorization: `Basic ${operator}` } })).status).toBe(
      401,
    );
    expect((await call("GET /v1/holds", { headers: { authorization: `bearer ${operator}` } })).status).toBe(
      200,
    );
    const open = await sceneOf();
    expect((await open.call("GET /v1/holds", { headers: { authorization: "Bearer" } })).status).toBe(401);
  });
});

describe("the dashboard's session", () => {
  test("reads with its cookie, and changes only with its header", async () => {
    const { call, token } = await sceneOf();
    const operator = await token({ role: "operator" });
    const opened = await call("POST /session", { body: { token: operator } });
    const cookie = String(opened.headers["set-cookie"]).split(";")[0] as string;
    expect((await call("GET /v1/holds", { headers: { cookie } })).status).toBe(200);
    const declare = { key: "k", body: { resource: "room-7", capacity: 2 } };
    const without = await call("POST /v1/resources", { ...declare, headers: { cookie } });
    expect([without.status, without.body.code]).toEqual([403, "not-authorized"]);
    const wrong = { cookie, "x-nevertwice-csrf": "guess" };
    expect((await call("POST /v1/resources", { ...declare, headers: wrong })).status).toBe(403);
    const right = { cookie, "x-nevertwice-csrf": opened.body.csrf };
    expect((await call("POST /v1/resources", { ...declare, headers: right })).status).toBe(200);
  });
});
