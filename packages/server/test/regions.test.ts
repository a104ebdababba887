/** Tests docs/regions.md: a request runs in its owner's home region and nowhere else, whatever clients and networks do. */
import type { IncomingMessage } from "node:http";
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { describe, expect, test } from "vitest";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import type { ScopeRule } from "../src/gateway/gateway-rules.ts";
import { createHomeMapLog } from "../src/regions/home-map-log.ts";
import { HOP_HEADER, writeHop } from "../src/regions/hop.ts";
import { createRegionRoute } from "../src/regions/region-route.ts";
import type { Regions as RegionsOf } from "../src/regions/regions.ts";
import { gate, gatewayBefore, read, serviceOn } from "./gateway/stage.ts";
import { EVERYONE_IN_EU, headerOf, SECRET, startRegions } from "./regions/stage.ts";

const ACME = { "x-tenant": "acme" };
/** Acme, as lists and maps show it. */
const ACME_SCOPE = "header:x-tenant:s:acme";

describe("a request to a region that is not its home", () => {
  test("is forwarded to the home, and every retry is replayed in both regions", async () => {
    const { gateways, effects } = await startRegions();
    const first = await gateways.us.send({ key: "k", headers: ACME });
    expect([first.status, first.text, first.headers[REPLAYED]]).toEqual([201, '{"effect":1}', undefined]);
    for (const { send } of [gateways.eu, gateways.us]) {
      const again = await send({ key: "k", headers: ACME });
      expect([again.status, again.text, again.headers[REPLAYED]]).toEqual([201, '{"effect":1}', "true"]);
    }
    expect(effects.map(({ region }) => region)).toEqual(["eu"]);
  });

  test("reaches the home's service as it was sent, with the address of the client", async () => {
    const { gateways, effects } = await startRegions();
    const path = "/Orders/%E2%82%AC?a=1&a=2&b=%2F";
    const body = '{"amount" :  7.10}\r\n';
    await gateways.us.send({
      key: "k",
      path,
      body,
      headers: { ...ACME, "X-Custom": ["one", "two"], "X-Forwarded-For": "6.6.6.6", Host: "localhost:1234" },
    });
    const [effect] = effects;
    if (effect === undefined) throw new Error("the service was not asked");
    expect([effect.url, effect.body, headerOf(effect, "host")]).toEqual([path, body, "localhost:1234"]);
    const custom = effect.rawHeaders.filter((_, i) => effect.rawHeaders[i - 1] === "X-Custom");
    expect(custom).toEqual(["one", "two"]);
    expect(headerOf(effect, "x-forwarded-for")).toBe("127.0.0.1, 127.0.0.1");
    expect(headerOf(effect, "nevertwice-hop")).toBeUndefined();
    expect(headerOf(effect, "nevertwice-fence")).toMatch(/^\d+$/);
  });

  test("with its key in the body is forwarded with that body", async () => {
    const routes = [
      {
        path: "/*",
        methods: ["POST"],
        required: true,
        scope: { header: "x-tenant" },
        keyField: "id",
        onUpstreamLost: "unknown" as const,
      },
    ];
    const { gateways, effects } = await startRegions({ config: { routes, gatewayScope: undefined } });
    const body = '{"id":"k","amount":7}';
    expect((await gateways.us.send({ body, headers: ACME })).status).toBe(201);
    expect((await gateways.eu.send({ body, headers: ACME })).headers[REPLAYED]).toBe("true");
    expect(effects.map(({ region, body: got }) => [region, got])).toEqual([["eu", body]]);
  });

  test("is refused with 503 while the home is out of reach, and runs after that", async () => {
    const { gateways, network, effects } = await startRegions();
    network.eu.refuse();
    const refused = await gateways.us.send({ key: "k", headers: ACME });
    expect([refused.status, refused.code(), refused.headers["x-should-retry"]]).toEqual([
      503,
      "unavailable",
      "true",
    ]);
    expect(effects).toEqual([]);
    network.eu.heal();
    expect((await gateways.us.send({ key: "k", headers: ACME })).status).toBe(201);
    expect(effects.map(({ region }) => region)).toEqual(["eu"]);
  });

  test("is refused in the shape of the route's profile", async () => {
    const routes = [
      {
        path: "/*",
        methods: ["POST"],
        required: false,
        scope: { header: "x-tenant" },
        profile: "stripe-v1" as const,
        onUpstreamLost: "unknown" as const,
      },
    ];
    const { gateways, network } = await startRegions({ config: { routes, gatewayScope: undefined } });
    network.eu.refuse();
    const { status, text, headers } = await gateways.us.send({ key: "k", headers: ACME });
    expect([status, headers["stripe-should-retry"]]).toEqual([503, "true"]);
    expect(JSON.parse(text).error).toMatchObject({ code: "unavailable" });
  });

  test("whose answer was lost runs nowhere else, and its retry gets the answer", async () => {
    const { gateways, network, effects } = await startRegions();
    network.eu.cutReply();
    const lost = await gateways.us.send({ key: "k", headers: ACME });
    expect([lost.status, lost.code(), lost.headers["x-should-retry"]]).toEqual([
      502,
      "upstream-lost",
      "true",
    ]);
    const again = await gateways.us.send({ key: "k", headers: ACME });
    expect([again.status, again.text]).toEqual([201, '{"effect":1}']);
    expect(effects.map(({ region }) => region)).toEqual(["eu"]);
  });

  test("runs at home only once while it is sent to both regions", async () => {
    const { gateways, effects } = await startRegions();
    const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
    const answers = await Promise.all(
      keys.flatMap((key) => [gateways.eu, gateways.us].map(({ send }) => send({ key, headers: ACME }))),
    );
    expect(answers.filter(({ status }) => status !== 201 && status !== 409)).toEqual([]);
    expect(effects).toHaveLength(keys.length);
    expect(new Set(effects.map(({ region }) => region))).toEqual(new Set(["eu"]));
  });

  test("without a key stays in the region, like every read", async () => {
    const { gateways, effects } = await startRegions();
    await gateways.us.send({ headers: ACME });
    await gateways.us.send({ method: "GET", headers: ACME });
    expect(effects.map(({ region }) => region)).toEqual(["us", "us"]);
  });

  test("belongs to the default home if the keys belong to every client", async () => {
    const { gateways, effects } = await startRegions({ config: { gatewayScope: "anyone" } });
    expect((await gateways.us.send({ key: "k" })).status).toBe(201);
    expect(effects.map(({ region }) => region)).toEqual(["eu"]);
  });
});

describe("a client", () => {
  const hopOf = (over: Partial<Parameters<typeof writeHop>[0]>, path = "/orders", secret = SECRET) =>
    writeHop(
      { from: "us", to: "eu", map: 1, scope: ACME_SCOPE, ...over },
      { method: "POST", url: path, headers: { host: "localhost" } },
      secret,
    );
  const sent = (hop: string | string[], more: object = {}) => ({
    key: "k",
    headers: { ...ACME, Host: "localhost", [HOP_HEADER]: hop },
    ...more,
  });

  test.each([
    ["a text", "us"],
    ["a mark without a signature", hopOf({}).replace(/\..*/, ".")],
    ["a mark with another secret", hopOf({}, "/orders", "another secret of thirty-two characters")],
    ["a mark of another path", hopOf({}, "/refunds")],
    ["a mark whose end was changed", `${hopOf({}).slice(0, -1)}-`],
    ["two marks", [hopOf({}), hopOf({})]],
  ])("cannot make a request look forwarded with %s", async (_, hop) => {
    const { gateways, effects } = await startRegions();
    for (const { send } of [gateways.eu, gateways.us]) {
      const { status, code } = await send(sent(hop));
      expect([status, code()]).toEqual([403, "not-authorized"]);
    }
    expect(effects).toEqual([]);
  });

  test("cannot use a mark with another Host, or after five minutes", async () => {
    const { gateways, effects } = await startRegions();
    const { headers } = sent(hopOf({}));
    const other = await gateways.eu.send({ key: "k", headers: { ...headers, Host: "127.0.0.1" } });
    expect(other.code()).toBe("not-authorized");
    const now = Date.now();
    const realNow = Date.now;
    Date.now = () => now - 301_000;
    const old = hopOf({});
    Date.now = realNow;
    expect((await gateways.eu.send(sent(old))).code()).toBe("not-authorized");
    expect(effects).toEqual([]);
  });

  test.each([
    ["to another region", { to: "us" }, {}],
    ["for another owner", { scope: "header:x-tenant:s:umbrella" }, {}],
    ["without a key", {}, { key: undefined }],
    ["with a newer map", { map: 2 }, {}],
  ])("that has the secret cannot have a request run here with a mark %s", async (_, over, more) => {
    const { gateways, effects } = await startRegions();
    const { status, code } = await gateways.eu.send(sent(hopOf(over), more));
    expect([status, code()]).toEqual([503, "unavailable"]);
    expect(effects).toEqual([]);
  });

  test("cannot have its key removed on the way by naming it in Connection", async () => {
    const routes = [
      {
        path: "/*",
        methods: ["POST"],
        required: false,
        scope: { header: "x-tenant" },
        profile: "oasis" as const,
        onUpstreamLost: "unknown" as const,
      },
    ];
    const { gateways, effects } = await startRegions({ config: { routes, gatewayScope: undefined } });
    const headers = {
      ...ACME,
      "Repeatability-Request-ID": "k",
      "Repeatability-First-Sent": new Date().toUTCString(),
    };
    const named = "close, repeatability-request-id, repeatability-first-sent";
    const { status } = await gateways.us.send({ headers: { ...headers, Connection: named } });
    expect(status).toBe(503);
    expect(effects).toEqual([]);
    expect((await gateways.us.send({ headers })).status).toBe(201);
  });

  test("cannot send the mark to a service behind a gateway without a region", async () => {
    const seen: string[][] = [];
    const service = await serviceOn(async (req, res) => {
      await read(req);
      seen.push(Object.keys(req.headers).filter((name) => /^nevertwice-(?!key|fence|attempt)/.test(name)));
      res.end("done");
    });
    const { send } = await gatewayBefore(service);
    expect((await send(sent(hopOf({})))).status).toBe(200);
    const ours = { [HOP_HEADER]: "us", "Nevertwice-Later": "a header that a later release may trust" };
    expect((await send({ method: "GET", headers: ours })).status).toBe(200);
    expect(seen).toEqual([[], []]);
  });
});

describe("maps of two regions that differ", () => {
  const IN_US = { ...EVERYONE_IN_EU, version: 2, default: "us" };

  test("never make a request go round, or run in both regions", async () => {
    const { gateways, stores, effects, network } = await startRegions();
    const log = createHomeMapLog(stores.get("eu") as never);
    await log.publish(IN_US);
    await expect
      .poll(async () => (await gateways.eu.send({ key: "a", headers: ACME })).code())
      .toBe("unavailable");
    // Here the older map says eu, which refuses to forward a forwarded request.
    const { requests } = network.us;
    const answer = await gateways.us.send({ key: "a", headers: ACME });
    expect(network.us.requests).toBe(requests);
    expect([answer.status, answer.code()]).toEqual([503, "unavailable"]);
    expect(effects).toEqual([]);
    await log.close();
  });

  test("are equal again when the lagging store has the newest version", async () => {
    const { gateways, logs, stores, effects } = await startRegions();
    const log = createHomeMapLog(stores.get("eu") as never);
    await log.publish(IN_US);
    expect(await logs.newest()).toEqual(IN_US);
    await expect.poll(async () => (await gateways.eu.send({ key: "a", headers: ACME })).status).toBe(201);
    expect(effects.map(({ region }) => region)).toEqual(["us"]);
    await log.close();
  });

  test("a gateway that has not seen the newest version claims the key, finds the version, and sends nothing", async () => {
    const store = memoryStore();
    const reached = gate();
    const opened = gate();
    const claim: typeof store.claim = async (request) => {
      const answer = await store.claim(request);
      if (request.parts.key === "k") {
        reached.resolve();
        await opened.promise;
      }
      return answer;
    };
    const eu = { ...store, claim };
    const { gateways, logs, effects } = await startRegions({ stores: { eu, us: memoryStore() } });
    await gateways.eu.send({ key: "warm", headers: ACME });
    const late = gateways.eu.send({ key: "k", headers: ACME });
    await reached.promise;
    await logs.publish({ ...EVERYONE_IN_EU, version: 2, frozen: { [ACME_SCOPE]: "us" } });
    opened.resolve();
    const { status, code } = await late;
    expect([status, code()]).toEqual([503, "unavailable"]);
    expect(effects).toHaveLength(1);
    const record = await createGuard({ store: eu, namespace: "default" }).read({
      scope: ACME_SCOPE,
      operation: "POST /orders",
      key: "k",
    });
    expect(record?.state).toBe("released");
  });

  test("a gateway without a map refuses every key", async () => {
    const { gateways, effects } = await startRegions({ map: null });
    const { status, code } = await gateways.eu.send({ key: "k", headers: ACME });
    expect([status, code()]).toEqual([503, "unavailable"]);
    expect(effects).toEqual([]);
  });
});

describe("the owner of a forwarded request", () => {
  const hop = { from: "us", to: "eu", map: 1 };
  const judged = async (rule: ScopeRule, own: string, signed: string) => {
    const regions = { findHop: () => ({ ...hop, scope: signed }) } as unknown as RegionsOf;
    const { scope } = createRegionRoute(regions, rule, () => own);
    return scope === "anyone" ? scope : scope({} as IncomingMessage);
  };

  test("is that of the signed mark if it is a certificate, which only the first gateway saw", async () => {
    const rule = { certificate: "subject" } as const;
    const signed = "certificate:subject:sha256:AB:CN=alice";
    expect(await judged(rule, "certificate:subject:sha256:CD:CN=gateway", signed)).toBe(signed);
    await expect(judged(rule, "none", "certificate:fingerprint:sha256:AB")).rejects.toMatchObject({
      code: "unavailable",
    });
  });

  test("is judged again otherwise, and refused if the two gateways differ", async () => {
    const rule = { jwt: "sub", key: "env:SECRET" };
    expect(await judged(rule, "jwt:sub:s:42", "jwt:sub:s:42")).toBe("jwt:sub:s:42");
    await expect(judged(rule, "jwt:sub:s:42", "jwt:sub:s:43")).rejects.toMatchObject({ code: "unavailable" });
  });
});
