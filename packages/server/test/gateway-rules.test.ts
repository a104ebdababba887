/** Tests the rules of the gateway: reading them from a file, the errors in them, and which rule matches a request. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import { configOf, readConfig } from "../src/config.ts";
import { type GatewayRule, readRules, ruleWarnings } from "../src/gateway/gateway-rules.ts";
import { createRouteLabel, createRouteMatcher } from "../src/gateway/route-match.ts";
import { createGateway } from "../src/gateway.ts";
import { gatewayBefore, read, serviceOn } from "./gateway/stage.ts";

test("reads every option of a route", () => {
  const folder = mkdtempSync(join(tmpdir(), "nevertwice-rules-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "server.toml");
  writeFileSync(
    file,
    `upstream = "http://127.0.0.1:3000"
[[routes]]
path = "/payments"
methods = ["post", "Put"]
key_field = "ClientToken"
required = true
scope = { jwt = "sub", key = "env:JWT_SECRET", issuer = "us" }
profile = "stripe-v1"
fingerprint = "raw"
max_body_bytes = 10
replay_headers = ["x-cost"]
lease = "10s"
retention = "2d"
wait = "5s"
on_not_kept = "status"
on_lapsed = "hold"
on_upstream_lost = "release"
[[routes]]
path = "/*"
scope = "anyone"
`,
  );
  expect(readConfig({ file }).routes).toEqual([
    {
      path: "/payments",
      methods: ["POST", "PUT"],
      required: true,
      scope: { jwt: "sub", key: "env:JWT_SECRET", issuer: "us" },
      profile: "stripe-v1",
      keyField: "ClientToken",
      fingerprint: "raw",
      maxBodyBytes: 10,
      replayHeaders: ["x-cost"],
      leaseMs: 10_000,
      retentionMs: 172_800_000,
      waitMs: 5_000,
      onNotKept: "status",
      onLapsed: "hold",
      onUpstreamLost: "release",
    },
    { path: "/*", methods: ["POST", "PATCH"], required: false, scope: "anyone", onUpstreamLost: "unknown" },
  ]);
});

const GOOD = { path: "/a", scope: "anyone" };
test.each([
  [{ path: "/a" }, /^scope of route 1 in f is missing; it must be "anyone", \{ header/],
  [{ scope: "anyone" }, /^path of route 1 in f is missing/],
  [{ ...GOOD, scope: "me" }, /^scope of route 1 in f is "me"/],
  [{ ...GOOD, scope: { header: "a b" } }, /^scope of route 1/],
  [{ ...GOOD, scope: { header: "a", jwt: "sub" } }, /^scope of route 1/],
  [{ ...GOOD, scope: { jwt: "sub" } }, /^scope of route 1/],
  [{ ...GOOD, scope: { certificate: "serial" } }, /^scope of route 1/],
  [{ ...GOOD, path: "a" }, /^path of route 1 in f is "a"; it must be a path such as/],
  [{ ...GOOD, path: "/a*" }, /^path of route 1/],
  [{ ...GOOD, path: "/a/*/b" }, /^path of route 1/],
  [{ ...GOOD, methods: ["GET"] }, /^methods of route 1 in f is \["GET"\]/],
  [{ ...GOOD, methods: ["get"] }, /^methods of route 1 in f is \["get"\]/],
  [{ ...GOOD, key_field: "" }, /^key_field of route 1/],
  [{ ...GOOD, methods: [] }, /^methods of route 1/],
  [{ ...GOOD, required: "yes" }, /^required of route 1 .* true or false/],
  [{ ...GOOD, lease: 30 }, /^lease of route 1 in f is 30/],
  [{ ...GOOD, lease: "30" }, /lease of route 1 in f is "30".*units/],
  [{ ...GOOD, on_lapsed: "retry" }, /^on_lapsed of route 1 .* takeover, hold/],
  [{ ...GOOD, on_not_kept: "keep" }, /^on_not_kept of route 1 .* status, refuse/],
  [{ ...GOOD, on_upstream_lost: "retry" }, /^on_upstream_lost of route 1 .* unknown, release/],
  [{ ...GOOD, fingerprint: "md5" }, /^fingerprint of route 1/],
  [{ ...GOOD, max_body_bytes: -1 }, /^max_body_bytes of route 1/],
  [{ ...GOOD, requierd: true }, /^there is no setting requierd of route 1 in f\. Did you mean "required"\?/],
  ["text", /^route 1 in f is "text"/],
])("%j is refused with a reason", (route, message) => {
  expect(() => readRules("f", [route])).toThrow(
    expect.objectContaining({ message: expect.stringMatching(message) }),
  );
});

test("refuses routes that are not a list", () => {
  expect(() => readRules("f", {})).toThrow(/\[\[routes\]\]/);
});

test.each([
  ["anyone", "anyone"],
  ["header:x-tenant", { header: "x-tenant" }],
  ["jwt:sub:env:JWT_SECRET", { jwt: "sub", key: "env:JWT_SECRET" }],
  ["jwt:sub:./key.pem", { jwt: "sub", key: "./key.pem" }],
  ["certificate:fingerprint", { certificate: "fingerprint" }],
])("--gateway-scope %s is read", (text, scope) => {
  expect(readConfig({ flags: { gatewayScope: text } }).gatewayScope).toEqual(scope);
});

test.each(["", "everyone", "header:", "header:a:b", "jwt:sub", "certificate:serial"])(
  "--gateway-scope %j is refused",
  (text) => {
    expect(() => readConfig({ flags: { gatewayScope: text } })).toThrow(
      /--gateway-scope .* must be anyone, header:NAME/,
    );
  },
);

test("a gateway without a scope does not start", () => {
  expect(() => createGateway(configOf({ upstream: "http://127.0.0.1:1" }), {} as never)).toThrow(
    /gateway-scope is missing.*--gateway-scope jwt:sub:FILE/,
  );
});

test("a password in the address of the service is refused and not shown", () => {
  const config = configOf({ upstream: "http://me:secret@127.0.0.1:1", gatewayScope: "anyone" });
  expect(() => createGateway(config, {} as never)).toThrow(
    expect.objectContaining({ message: expect.not.stringContaining("secret") }),
  );
});

test.each([
  ["Authorization", 1],
  ["cookie", 1],
  ["x-tenant", 0],
])("an operator is warned of owners that change with every token: header:%s", (header, count) => {
  const rule = {
    path: "/a",
    methods: ["POST"],
    required: false,
    scope: { header },
    onUpstreamLost: "unknown",
  } as const;
  expect(ruleWarnings([rule])).toHaveLength(count);
});

describe("which rule matches", () => {
  const rules = [
    { path: "/payments", methods: ["POST"] },
    { path: "/api/*", methods: ["POST", "PUT"] },
    { path: "/holds/{id}/confirm", methods: ["POST"] },
    { path: "/*", methods: ["POST"] },
  ];
  const { find } = createRouteMatcher(rules);

  test.each([
    ["POST", "/payments", "/payments", "/payments"],
    ["POST", "/payments?x=/api/", "/payments", "/payments?x=/api/"],
    ["POST", "/payments/", "/payments", "/payments"],
    ["POST", "/PAYMENTS", "/payments", "/payments"],
    ["POST", "/%70ayments", "/payments", "/payments"],
    ["POST", "/payments/1", "/*", "/payments/1"],
    ["POST", "/Other//x/", "/*", "/Other//x/"],
    ["POST", "/o%74her/%e2%82%ac%2Fx", "/*", "/o%74her/%e2%82%ac%2Fx"],
    ["PUT", "/api/a/B", "/api/*", "/api/a/B"],
    ["PUT", "/API/a;v=1/", "/api/*", "/api/a;v=1/"],
    ["PUT", "/api", "/api/*", "/api"],
    ["PUT", "/Api/", "/api/*", "/api"],
    ["POST", "/HOLDS/Ab%2Fc/Confirm/", "/holds/{id}/confirm", "/holds/Ab%2Fc/confirm"],
    ["POST", "/holds/%7Bid%7D/confirm", "/holds/{id}/confirm", "/holds/%7Bid%7D/confirm"],
    ["POST", "/holds/confirm", "/*", "/holds/confirm"],
  ])("%s %s: %s, known as %s", (method, target, path, identity) => {
    expect(find(method, target)).toMatchObject({ rule: { path }, identity });
  });

  test.each([
    ["PUT", "/apis"],
    ["PUT", "/payments"],
    ["GET", "/payments"],
    ["GET", "/%ff/../%"],
  ])("%s %s: none", (method, target) => {
    expect(find(method, target)).toBeUndefined();
  });

  test.each([
    ["another service would merge the slashes", "//payments"],
    ["another service would drop the parameters", "/payments;x=1"],
    ["another service would drop the parameters before it decodes", "/payments;x%2Fy"],
    ["another service would decode the slash", "/payments%2F"],
    ["another service would take the backslash for a slash", "/payments%5c"],
    ["another service would decode twice", "/%2570ayments"],
    ["another service would decode three times", "/%252570ayments"],
    ["dot segments", "/x/../payments"],
    ["escaped dot segments", "/x/%2e%2e/payments"],
    ["dot segments behind an escaped slash", "/payments/x%2f..%2f..%2fother"],
    ["dot segments with parameters", "/x/..;a/payments"],
    ["dot segments that are escaped twice", "/x/%252e%252e/payments"],
    ["an escape that is not UTF-8", "/p%61yments/%ff"],
    ["an escape that is not UTF-8, and dot segments", "/%ff/../p%61yments"],
    ["an overlong escape of a slash", "/x%c0%afpayments"],
    ["a second escape beside one that means nothing", "/%25ff%252f../payments"],
    ["half an escape", "/payments%"],
    ["an escaped control character", "/payments%00"],
    ["another service would decode the slash in front of a literal", "/holds/1%2fconfirm"],
    ["another service would merge the slashes of a rule with a parameter", "/holds//1/confirm"],
    ["a path that is escaped too often", `/${"%25".repeat(1)}${"25".repeat(9)}70ayments`],
  ])("a path that services read differently is refused: %s", (_, target) => {
    expect(() => find("POST", target)).toThrow(expect.objectContaining({ code: "request-invalid" }));
  });

  test("a path with several readings is accepted if all of them match the same rule", () => {
    expect(find("PUT", "/api/a%2Fb;c//d")?.rule.path).toBe("/api/*");
  });
});

test.each(["/a//b", "/a/../b", "/a;b", "/a%2fb", "/a/%zz", "/a/{id", "/a/{id}.json", "/a/{}"])(
  "a rule for %s is refused",
  (path) => {
    const routes = [{ path, scope: "anyone" }];
    expect(() => readRules("file.toml", routes)).toThrow(/path of route 1 in file.toml/);
  },
);

test("each route has its own settings, and requests without a matching route pass unchanged", async () => {
  let runs = 0;
  const port = await serviceOn(async (req, res) => {
    await read(req);
    res.setHeader("X-Cost", "3");
    res.end(`run ${++runs}`);
  });
  const base = { methods: ["POST"], scope: "anyone", onUpstreamLost: "unknown" } as const;
  const routes: GatewayRule[] = [
    { ...base, path: "/strict", required: true, maxBodyBytes: 4, replayHeaders: ["x-cost"] },
    { ...base, path: "/stripe", required: false, profile: "stripe-v1" },
  ];
  const { send } = await gatewayBefore(port, { routes });
  expect((await send({ path: "/strict", body: "1" })).code()).toBe("key-missing");
  expect((await send({ path: "/strict", key: "k", body: "12345" })).code()).toBe("body-too-large");
  await send({ path: "/strict", key: "k", body: "1" });
  expect((await send({ path: "/strict", key: "k", body: "1" })).headers["x-cost"]).toBe("3");
  await send({ path: "/stripe", key: "k" });
  expect(JSON.parse((await send({ path: "/stripe", key: "k", body: "{}" })).text)).toHaveProperty(
    "error.type",
  );
  const before = runs;
  await send({ path: "/other", key: "k" });
  expect((await send({ path: "/other", key: "k" })).headers[REPLAYED]).toBeUndefined();
  expect(runs).toBe(before + 2);
});

test.each([
  [{}, 409],
  [{ onNotKept: "status" }, 200],
  [{ profile: "stripe-v1" }, 409],
  [{ profile: "stripe-v1", onNotKept: "status" }, 200],
] as const)(
  "a duplicate of a stream gets what %j says, and its first response says that it is not kept",
  async (line, status) => {
    let runs = 0;
    const port = await serviceOn(async (req, res) => {
      await read(req);
      runs++;
      res.writeHead(200, { "content-type": "text/event-stream" }).end("data: 1\n\n");
    });
    const rule: GatewayRule = {
      path: "/stream",
      methods: ["POST"],
      required: true,
      scope: "anyone",
      onUpstreamLost: "unknown",
    };
    const { send } = await gatewayBefore(port, { routes: [{ ...rule, ...line }] });
    const first = await send({ path: "/stream", key: "k" });
    expect([first.status, first.text, first.headers["nevertwice-outcome"]]).toEqual([
      200,
      "data: 1\n\n",
      "not-kept",
    ]);
    const again = await send({ path: "/stream", key: "k" });
    expect([again.status, runs]).toEqual([status, 1]);
  },
);

test("the error for an unknown profile names its route", async () => {
  const rule = { path: "/a", methods: ["POST"], required: false, scope: "anyone", profile: "nope" };
  await expect(gatewayBefore(1, { routes: [rule as never] })).rejects.toThrow(
    /route \/a: .*profile is "nope"/,
  );
});

test("a profile whose key is in the body reads it from forms, which the service gets unchanged", async () => {
  const seen: string[] = [];
  const port = await serviceOn(async (req, res) => {
    seen.push(await read(req));
    res.end("done");
  });
  const { send } = await gatewayBefore(port, {
    routes: [
      {
        path: "/*",
        methods: ["POST"],
        required: true,
        scope: "anyone",
        onUpstreamLost: "unknown",
        profile: "adcp",
      },
    ],
  });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const body = "budget=5&idempotency_key=8e03978e-40d5-43e8-bc93";
  expect((await send({ headers, body })).status).toBe(200);
  expect((await send({ headers, body })).headers[REPLAYED]).toBe("true");
  expect((await send({ headers, body: `${body}&idempotency_key=other-key-other-key` })).status).toBe(400);
  expect((await send({ headers, body: "budget=5" })).status).toBe(400);
  expect(seen).toEqual([body]);
});

describe("a rule whose key is in the body", () => {
  const BOUNDARY = "b";
  const part = (name: string, value: string) =>
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;

  test.each([
    ["application/json", '{"amount":5,"ClientToken":"t-1"}', '{"amount":5}', '{"ClientToken":"t-1"'],
    ["application/x-www-form-urlencoded", "amount=5&ClientToken=t-1", "amount=5", "ClientToken=%ff"],
    [
      `multipart/form-data; boundary=${BOUNDARY}`,
      `${part("amount", "5")}${part("ClientToken", "t-1")}--${BOUNDARY}--\r\n`,
      `${part("amount", "5")}--${BOUNDARY}--\r\n`,
      part("ClientToken", "t-1"),
    ],
  ])("reads it from %s, which the service gets unchanged, or refuses", async (type, keyed, bare, broken) => {
    const seen: string[] = [];
    const port = await serviceOn(async (req, res) => {
      seen.push(await read(req));
      res.end(`run ${seen.length}`);
    });
    const routes = readRules("f", [
      { path: "/*", scope: "anyone", methods: ["post"], key_field: "ClientToken", required: true },
    ]);
    const { send } = await gatewayBefore(port, { routes });
    const ask = (body: string, key?: string) =>
      send({ headers: { "content-type": type }, body, ...(key !== undefined && { key }) });
    expect((await ask(keyed)).text).toBe("run 1");
    const again = await ask(keyed, "ignored");
    expect([again.text, again.headers[REPLAYED]]).toEqual(["run 1", "true"]);
    expect((await ask(bare, "ignored")).code()).toBe("key-missing");
    expect((await ask(broken)).code()).toBe("key-invalid");
    expect(seen).toEqual([keyed]);
  });
});

test("a key that no rule honours causes one warning per method, without the query and the key", async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on("warning", note);
  onTestFinished(() => void process.off("warning", note));
  const port = await serviceOn((_req, res) => void res.end("done"));
  const { send } = await gatewayBefore(port);
  for (const method of ["POST", "GET", "PUT", "PUT", "DELETE"])
    expect((await send({ method, path: "/orders/7?secret=1", key: "hush" })).status).toBe(200);
  await send({ method: "PATCH", path: "/orders/7" });
  const told = warnings.filter((warning) => "code" in warning && warning.code === "NEVERTWICE_KEY_IGNORED");
  expect(told.map(({ message }) => /\((\w+ "[^"]*")\)/.exec(message)?.[1])).toEqual([
    'PUT "/orders/7"',
    'DELETE "/orders/7"',
  ]);
  expect(told.map(({ message }) => message).join()).not.toMatch(/secret|hush/);
});

test.each([
  ["POST /orders/ann@example.com", "POST /orders/*"],
  ["POST /orders", "POST /orders/*"],
  [`POST sha256:${"0".repeat(64)}`, "POST (long path)"],
  ["PUT /orders/1", "PUT /orders/1"],
  ["POST /orders/../x", "POST /orders/../x"],
  ["charge", "charge"],
  ["POST /holds/7/confirm", "POST /holds/{id}/confirm"],
])("the figures of %s are labelled %s", (operation, label) => {
  const rules = [
    { path: "/orders/*", methods: ["POST"] },
    { path: "/holds/{id}/confirm", methods: ["POST"] },
  ];
  expect(createRouteLabel(rules)(operation)).toBe(label);
});
