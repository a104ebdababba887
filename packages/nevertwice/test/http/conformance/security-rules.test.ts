/** Tests the twenty security rules for services that store responses, each tested on a service under attack. */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import express from "express";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createEngine } from "../../../src/core/engine.ts";
import { toIdentity } from "../../../src/core/identity.ts";
import type { Store } from "../../../src/core/store.ts";
import { createExchange } from "../../../src/http/exchange.ts";
import { idempotency } from "../../../src/http/express.ts";
import type { HeaderLine } from "../../../src/http/http-message.ts";
import type { HttpOptions } from "../../../src/http/options.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { REPLAYED } from "../replayed-header.ts";
import { gate, listen, notingStore, type Received, received, serve } from "./service.ts";

const as = (tenant: string): readonly HeaderLine[] => [["X-Tenant", tenant]];
const byTenant = { scope: (req: IncomingMessage) => req.headers["x-tenant"] as string | undefined };
const valuesOf = ({ lines }: Received, name: string) =>
  lines.filter(([line]) => line === name).map(([, value]) => value);

/** A store whose stored answers an attacker has changed. */
function tampered(inner: Store, change: (kept: unknown[]) => unknown): Store {
  return {
    ...inner,
    async claim(asked) {
      const answer = await inner.claim(asked);
      if (answer.status !== "completed") return answer;
      const [head, kept] = JSON.parse(answer.outcome);
      return { ...answer, outcome: JSON.stringify([head, change(kept)]) };
    },
  };
}

describe("the owner of a key", () => {
  test("security rule 1: the layer requires a scope, and an empty scope is never shared", async () => {
    const guard = createEngine({ store: memoryStore(), purgeEveryMs: 0 });
    for (const options of [{}, { scope: undefined }, { scope: "" }, { scope: "tenant" }, { scope: null }])
      expect(() => createExchange(guard, options as unknown as HttpOptions<unknown>)).toThrow("scope");
    expect(() => createExchange(guard, { scope: "anyone" })).not.toThrow();
    const { store, calls } = notingStore(memoryStore());
    for (const empty of [undefined, "", null, 0, {}]) {
      const service = await serve({ store, options: { scope: () => empty as unknown as string } });
      const answer = await service.send({ key: "k" });
      expect([answer.status, answer.json().code]).toEqual([500, "scope-missing"]);
      expect(service.runs()).toBe(0);
    }
    expect(calls).toEqual([]);
  });

  test("security rule 2: different owners, routes and keys never share a record, whatever characters they contain", async () => {
    const part = fc.string({
      unit: fc.constantFrom(":", "|", "\u0000", "1", "a", "é", "/"),
      minLength: 1,
      maxLength: 6,
    });
    const parts = fc.record({ namespace: part, scope: part, operation: part, key: part });
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        const areAlike = JSON.stringify(one) === JSON.stringify(other);
        return (toIdentity(one).id === toIdentity(other).id) === areAlike;
      }),
      { numRuns: 5_000 },
    );
    const service = await serve({ options: byTenant });
    const paths = ["/users/1/orders", "/users/2/orders", "/users/1/orders/", "/users/1%2Forders"];
    for (const path of paths) await service.send({ key: "k", path, headers: as("a") });
    expect(service.runs()).toBe(paths.length);
  });

  test("security rule 3: the caller is authorized before the store is called, for a first request and for a duplicate", async () => {
    const order: string[] = [];
    const inner = notingStore(memoryStore());
    const store: Store = {
      ...inner.store,
      claim: (asked) => {
        order.push("claim");
        return inner.store.claim(asked);
      },
    };
    const accounts = new Map([["ann", "buyer"]]);
    const service = await serve({
      store,
      options: {
        scope: (req) => req.headers.authorization,
        authorize: (req) => {
          order.push("authorize");
          return accounts.get(req.headers.authorization ?? "") === "buyer";
        },
      },
      handler: ({ res }) => res.end("a secret answer"),
    });
    const ask = () => service.send({ key: "k", headers: [["Authorization", "ann"]] });
    expect((await ask()).text).toBe("a secret answer");
    expect((await ask()).text).toBe("a secret answer");
    expect(order).toEqual(["authorize", "claim", "authorize", "claim"]);
    for (const change of [() => accounts.set("ann", "guest"), () => accounts.delete("ann")]) {
      change();
      const refused = await ask();
      expect([refused.status, refused.text.includes("secret")]).toEqual([403, false]);
    }
    expect(order.slice(4)).toEqual(["authorize", "authorize"]);
  });

  test("security rule 6: a caller who uses another caller's key neither sees, blocks nor delays its owner", async () => {
    const door = gate();
    const service = await serve({
      options: byTenant,
      handler: async ({ req, res }) => {
        if (req.headers["x-tenant"] === "squatter") await door.pass();
        res.end(`for ${req.headers["x-tenant"]}`);
      },
    });
    const squatting = service.send({ key: "k", headers: as("squatter"), body: { evil: true } });
    await door.reached();
    const owner = await service.send({ key: "k", headers: as("owner") });
    expect([owner.status, owner.text, owner.header(REPLAYED)]).toEqual([200, "for owner", undefined]);
    expect((await service.send({ key: "k", headers: as("owner") })).text).toBe("for owner");
    door.open();
    expect((await squatting).text).toBe("for squatter");
    expect((await service.send({ key: "k", headers: as("owner") })).text).toBe("for owner");
  });

  test("security rule 16: a caller cannot find out the state of another caller's key", async () => {
    const door = gate();
    const service = await serve({
      options: byTenant,
      handler: async ({ req, res }) => {
        if (req.url === "/slow" && req.headers["x-tenant"] === "victim") await door.pass();
        res.writeHead(req.url === "/failing" ? 404 : 201).end();
      },
    });
    for (const path of ["/orders", "/failing"]) await service.send({ key: "k", path, headers: as("victim") });
    const running = service.send({ key: "k", path: "/slow", headers: as("victim") });
    await door.reached();
    const probes = ["/orders", "/slow", "/never-used"].map((path) =>
      service.send({ key: "k", path, headers: as("spy"), body: { other: "payload" } }),
    );
    const seen = (await Promise.all(probes)).map(({ status, lines, text }) =>
      JSON.stringify({ status, lines: lines.filter(([name]) => name !== "date"), text }),
    );
    expect(new Set(seen).size).toBe(1);
    expect(seen[0]).toContain('"status":201');
    door.open();
    await running;
  });
});

describe("a request", () => {
  test("security rule 5: the fingerprint is a digest of method, path, query and body, and reveals none of them", async () => {
    const store = memoryStore();
    const service = await serve({ store, options: { operation: "order" } });
    const body = { card: "4242424242424242" };
    await service.send({ key: "k", path: "/orders?a=1", body });
    const page = await store.list?.({ namespace: "default", limit: 1 });
    const { fingerprint = "" } = page?.records[0] ?? {};
    expect(fingerprint).toMatch(/^\S{40,80}$/);
    expect(fingerprint).not.toContain("4242");
    const others = [
      { path: "/orders?a=2", body },
      { path: "/order?a=1", body },
      { path: "/orders?a=1", body, method: "PATCH" },
      { path: "/orders?a=1", body: { card: "4242424242424241" } },
    ];
    const answers: Received[] = [];
    for (const other of others) answers.push(await service.send({ key: "k", ...other }));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.map(({ status }) => status)).toEqual([422, 422, 422, 422]);
    expect(answers[0]?.text).not.toContain("4242");
  });

  test("security rule 10: a key has 1 to 255 visible characters on one line; an empty one is refused, not ignored", async () => {
    const service = await serve();
    const bad = ["", " ", '""', "a b", '"a', "a,b", "x".repeat(256), "ü", '"a" "b"'];
    for (const key of bad) expect([key, (await service.send({ key })).status]).toEqual([key, 400]);
    const twice = await service.send({
      headers: [
        ["Idempotency-Key", "a"],
        ["Idempotency-Key", "a"],
      ],
    });
    expect(twice.status).toBe(400);
    expect(service.runs()).toBe(0);
    for (const key of ["a", "x".repeat(255), "!#$%&'()*+-./:;<=>?@[]^_`{|}~"])
      expect((await service.send({ key })).status).toBe(201);
    expect(service.runs()).toBe(3);
  });

  test("security rule 11: a body is limited by its received bytes, is never unpacked, and nothing is claimed before it is complete", async () => {
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({ store, options: { maxBodyBytes: 2_000 } });
    const tooLong = "x".repeat(2_001);
    const declared = await service.send({ key: "declared", body: tooLong });
    const chunked = await service.send({
      key: "chunked",
      body: tooLong,
      headers: [["Transfer-Encoding", "chunked"]],
    });
    expect([declared.status, chunked.status, chunked.json().code]).toEqual([413, 413, "body-too-large"]);
    // If a body is longer than its Content-Length, only the declared bytes are its body.
    expect(await answersOfRaw(service.port, "false-length", 5, "12345678901234567890")).toContain(400);
    expect((await service.send({ key: "false-length", body: "12345" })).status).toBe(201);
    expect((await service.send({ key: "false-length", body: "12345678901234567890" })).status).toBe(422);
    const bomb = gzipSync(Buffer.alloc(1_000_000));
    const headers = [["Content-Encoding", "gzip"]] as const;
    expect((await service.send({ key: "bomb", body: bomb, headers })).status).toBe(201);
    expect((await service.send({ key: "bomb", body: Buffer.alloc(1_000), headers })).status).toBe(422);

    const before = calls.length;
    const slow = request({
      port: service.port,
      host: "127.0.0.1",
      method: "POST",
      path: "/orders",
      headers: { "Idempotency-Key": "slow", "Content-Length": 10 },
    });
    const arrived = once(service.server, "request");
    slow.write("12345");
    await arrived;
    // Other requests are served meanwhile, and the slow one has not called the store.
    await service.send({ key: "meanwhile" });
    expect(calls.slice(before).map(({ method }) => method)).toEqual(["claim", "complete"]);
    slow.end("67890");
    const [answered] = (await once(slow, "response")) as [IncomingMessage];
    expect((await received(answered)).status).toBe(201);
    expect(calls.slice(before + 2).map(({ method }) => method)).toEqual(["claim", "complete"]);
  });

  test("security rule 13: no body and no stored answer changes a prototype, and a record that the layer did not write is not replayed", async () => {
    const service = await serve({ options: { operation: "order" } });
    const headers = [["Content-Type", "application/json"]] as const;
    const polluting = [
      '{"__proto__":{"admin":true}}',
      '{"constructor":{"prototype":{"admin":true}}}',
      '{"a":1}',
    ];
    for (const [index, body] of polluting.entries()) {
      expect((await service.send({ key: `k${index}`, body, headers })).status).toBe(201);
      expect((await service.send({ key: `k${index}`, body: "{}", headers })).status).toBe(422);
    }
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
    const deep = "[".repeat(200_000);
    expect((await service.send({ key: "deep", body: deep, headers })).status).toBe(201);
    const bad: unknown[] = [
      { __proto__: null, status: 200 },
      [200, ["location"], "x"],
      [200, [], { toString: "x" }],
      "201",
      [200, [], "x", "soon"],
      [200, [], "x", 1, 2],
      null,
    ];
    for (const kept of bad) {
      const broken = await serve({ store: tampered(memoryStore(), () => kept) });
      await broken.send({ key: "k" });
      const answer = await broken.send({ key: "k" });
      expect([JSON.stringify(kept), answer.status, answer.json().code]).toEqual([
        JSON.stringify(kept),
        500,
        "not-kept",
      ]);
      expect(broken.runs()).toBe(1);
    }
  });

  test("security rule 14: the store treats owners and operations as data, like keys", async () => {
    const hostile = "'; DROP TABLE nevertwice_records; --";
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({
      store,
      options: { ...byTenant, operation: hostile },
      guard: { namespace: hostile },
    });
    await service.send({ key: hostile.replaceAll(" ", ""), headers: as(hostile) });
    const [claim] = calls;
    const parts = {
      namespace: hostile,
      scope: hostile,
      operation: hostile,
      key: hostile.replaceAll(" ", ""),
    };
    expect(claim?.request).toMatchObject({ id: expect.stringMatching(/^[0-9a-f]{64}$/), parts });
    // The id of a record is a digest, and contains nothing that a client sent.
    expect(claim?.request).toMatchObject(toIdentity(parts));
  });
});

describe("a stored answer", () => {
  test("security rule 7: only allowed headers are replayed, each line unchanged", async () => {
    const guard = createEngine({ store: memoryStore(), purgeEveryMs: 0 });
    const never = [
      "Set-Cookie",
      "Authorization",
      "WWW-Authenticate",
      "Date",
      "Connection",
      "Access-Control-Allow-Origin",
    ];
    for (const name of never)
      expect(() => createExchange(guard, { scope: "anyone", replayHeaders: [name] })).toThrow(name);
    const service = await serve({
      options: { replayHeaders: ["X-Receipt"] },
      handler: ({ req, res }) => {
        res.setHeader("Set-Cookie", ["session=1; Expires=Thu, 01 Jan 2026 00:00:00 GMT", "b=2"]);
        res.setHeader("Content-Disposition", 'attachment; filename="a, b.txt"');
        res.setHeader("Link", ["</a>; rel=next", '</b>; rel="prev, up"']);
        res.setHeader("X-Receipt", ["1", "2"]);
        for (const name of ["X-RateLimit-Remaining", "Vary", "Server", "X-Internal"])
          res.setHeader(name, "9");
        res.setHeader("Access-Control-Allow-Origin", req.headers.origin ?? "none");
        res.end("done");
      },
    });
    const first = await service.send({ key: "k", headers: [["Origin", "https://a.example"]] });
    expect(valuesOf(first, "set-cookie")).toHaveLength(2);
    const second = await service.send({ key: "k", headers: [["Origin", "https://b.example"]] });
    expect(valuesOf(second, "content-disposition")).toEqual(['attachment; filename="a, b.txt"']);
    expect(valuesOf(second, "link")).toEqual(["</a>; rel=next", '</b>; rel="prev, up"']);
    expect(valuesOf(second, "x-receipt")).toEqual(["1", "2"]);
    const gone = [
      "set-cookie",
      "x-ratelimit-remaining",
      "vary",
      "server",
      "x-internal",
      "access-control-allow-origin",
    ];
    for (const name of gone) expect([name, valuesOf(second, name)]).toEqual([name, []]);
  });

  test("security rule 8: a header that could split a message is neither stored nor replayed", async () => {
    const bad: HeaderLine[] = [
      ["location", "/a\r\nSet-Cookie: evil=1"],
      ["link", "a\u0000b"],
      ["content-evil\r\nx", "1"],
      ["content language", "en"],
      [":status", "200"],
      ["etag", "€"],
    ];
    const { store, calls } = notingStore(memoryStore());
    const exchange = createExchange(createEngine({ store, purgeEveryMs: 0 }), {
      scope: "anyone",
      operation: "order",
    });
    const asked = {
      native: undefined,
      method: "POST",
      target: "/",
      header: (name: string) => (name === "idempotency-key" ? "k" : undefined),
      readBody: () => ({ kind: "bytes" as const, bytes: new Uint8Array() }),
    };
    const run = async () => ({
      status: 201,
      headers: [...bad, ["etag", '"v1"'] as const],
      body: Buffer.from("x"),
    });
    await exchange.handle(asked, run);
    const kept = calls.find(({ method }) => method === "complete")?.request.outcome ?? "";
    expect(JSON.parse(kept)[1]).toEqual([201, ["etag", '"v1"'], "x"]);
    for (const line of bad) {
      const broken = await serve({
        store: tampered(memoryStore(), ([status, , body]) => [status, line, body]),
      });
      await broken.send({ key: "k" });
      const answer = await broken.send({ key: "k" });
      expect([line, answer.status, answer.json().code]).toEqual([line, 500, "not-kept"]);
      expect(valuesOf(answer, "set-cookie")).toEqual([]);
    }
    for (const status of [0, 99, 101, 600, 1_000, "200", 200.5, null]) {
      const broken = await serve({ store: tampered(memoryStore(), ([, ...rest]) => [status, ...rest]) });
      await broken.send({ key: "k" });
      expect((await broken.send({ key: "k" })).json().code).toBe("not-kept");
      expect(broken.runs()).toBe(1);
    }
  });

  test("security rule 9: an answer marked as secret is stored as a marker without its body; no-store alone is not enough", async () => {
    const secret = "the one-time password 8412";
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({
      store,
      handler: ({ req, res, attempt }) => {
        if (req.url === "/secret") attempt?.keep("marker");
        res.setHeader("Cache-Control", "no-store");
        res.end(secret);
      },
    });
    expect((await service.send({ key: "k", path: "/secret" })).text).toBe(secret);
    expect(JSON.stringify(calls)).not.toContain(secret);
    const again = await service.send({ key: "k", path: "/secret" });
    expect([again.status, again.json().code]).toEqual([409, "already-done"]);
    await service.send({ key: "k", path: "/plain" });
    expect((await service.send({ key: "k", path: "/plain" })).text).toBe(secret);
    const marked = await serve({
      options: { keep: "marker", onNotKept: "status" },
      handler: ({ res }) => res.end(secret),
    });
    await marked.send({ key: "k" });
    expect((await marked.send({ key: "k" })).text).toBe("");
  });

  test("security rule 12: a caller's keys and bytes are limited, and a full store refuses new keys and forgets none", async () => {
    const bounded = await serve({ options: { ...byTenant, quota: 2 } });
    for (const key of ["a", "b"]) await bounded.send({ key, headers: as("flood") });
    expect((await bounded.send({ key: "c", headers: as("flood") })).status).toBe(429);
    const small = await serve({ options: { ...byTenant, quota: { bytes: 100, totalKeys: 3 } } });
    const answers: number[] = [];
    for (const [key, tenant] of ["a flood", "b flood", "c flood", "d other", "e third"].map((text) =>
      text.split(" "),
    ))
      answers.push((await small.send({ key, headers: as(tenant as string) })).status);
    expect(answers).toEqual([201, 201, 429, 201, 429]);
    const full = await serve({ store: memoryStore({ maxRecords: 2 }) });
    for (const key of ["a", "b"]) await full.send({ key });
    const refused = await full.send({ key: "c" });
    expect([refused.status, refused.json().code]).toEqual([503, "store-full"]);
    for (const key of ["a", "b"]) expect((await full.send({ key })).header(REPLAYED)).toBe("true");
    expect(full.runs()).toBe(2);
  });

  test("security rule 15: events show neither key, nor token, nor body, nor URL", async () => {
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({ store, options: { operation: "order" } });
    const sent = { key: "secret-key-1", path: "/orders?card=4242", body: { card: "secret-body" } };
    await service.send(sent);
    await service.send(sent);
    await service.send({ ...sent, body: { card: "another" } });
    const emitted = JSON.stringify(service.events);
    const token = calls[0]?.request.token ?? "";
    expect(token.length).toBeGreaterThan(10);
    for (const secret of ["secret-key-1", "secret-body", "4242", token])
      expect(emitted).not.toContain(secret);
    expect(service.events.map(({ kind }) => kind)).toEqual(["claimed", "completed", "replayed", "conflict"]);
    expect(
      JSON.stringify(await service.guard.read({ operation: "order", key: "secret-key-1" })),
    ).not.toContain(token);
  });

  test("security rule 19: a replay is marked, and shared caches must not store it", async () => {
    const caching = ({
      res,
    }: {
      res: { setHeader(name: string, value: string): unknown; end(text: string): unknown };
    }) => {
      res.setHeader("Cache-Control", "public, max-age=60");
      res.end("done");
    };
    const service = await serve({ handler: caching });
    expect((await service.send({ key: "k" })).header("cache-control")).toBe("public, max-age=60");
    const replay = await service.send({ key: "k" });
    expect([replay.header(REPLAYED), replay.header("cache-control")]).toEqual(["true", "no-store"]);
    const own = await serve({ handler: caching, options: { replayHeaders: ["cache-control"] } });
    await own.send({ key: "k" });
    expect((await own.send({ key: "k" })).header("cache-control")).toBe("public, max-age=60");
  });
});

describe("the right to write", () => {
  test("security rule 17: a refusal before the handler, or by an overloaded upstream, does not use up the key", async () => {
    const { store, calls } = notingStore(memoryStore());
    const app = express();
    let upstream = 503;
    app.use(express.json());
    app.post(
      "/orders",
      (req, res, next) => (req.headers.authorization === undefined ? void res.status(401).end() : next()),
      idempotency(createEngine({ store, purgeEveryMs: 0 }), { scope: (req) => req.headers.authorization }),
      (_req, res) => void res.status(upstream).end(),
    );
    app.use(
      (_error: unknown, _req: unknown, res: express.Response, _next: unknown) => void res.status(400).end(),
    );
    const shop = await listen(app);
    const headers = [["Authorization", "ann"]] as const;
    expect((await shop.send({ key: "k" })).status).toBe(401);
    const malformed = await shop.send({
      key: "k",
      body: "{",
      headers: [...headers, ["Content-Type", "application/json"]],
    });
    expect(malformed.status).toBe(400);
    expect(calls).toEqual([]);
    for (const status of [503, 429, 201]) {
      upstream = status;
      expect((await shop.send({ key: "k", headers })).status).toBe(status);
    }
    expect((await shop.send({ key: "k", headers })).header(REPLAYED)).toBe("true");
  });

  test("security rule 18: only the token that owns a key stores an answer or releases the key", async () => {
    const { store, calls } = notingStore(memoryStore());
    const door = gate();
    const service = await serve({
      store,
      handler: async ({ res, run }) => {
        await door.pass();
        res.writeHead(run === 1 ? 500 : 201).end("done");
      },
    });
    const first = service.send({ key: "k" });
    await door.reached();
    const foreign = { id: calls[0]?.request.id ?? "", token: "the token of another claim" };
    expect(await store.complete({ ...foreign, outcome: "evil", retentionMs: 1_000 })).toBe(false);
    expect(await store.abandon({ ...foreign, as: "released" })).toBe(false);
    expect(await store.renew({ ...foreign, leaseMs: 1_000 })).toBe(false);
    expect(await service.guard.forget({ operation: "POST /orders", key: "k" })).toBe(false);
    door.open();
    expect((await first).status).toBe(500);
    expect((await service.send({ key: "k" })).status).toBe(201);
    const ended = calls.filter(
      ({ method, request: { token } }) => ["complete", "abandon"].includes(method) && token !== foreign.token,
    );
    const claimed = calls.filter(({ method }) => method === "claim").map(({ request: { token } }) => token);
    expect(ended.map(({ method }) => method)).toEqual(["abandon", "complete"]);
    expect(ended.map(({ request: { token } }) => token)).toEqual(claimed);
    expect(new Set(claimed).size).toBe(2);
  });

  test("security rule 20: the package has two small dependencies, of which Node loads one for one entry point, and runs nothing when it is installed", async () => {
    const manifest = JSON.parse(await readFile(new URL("../../../package.json", import.meta.url), "utf8"));
    // The tests of the package show what each entry point loads. On Node only pipelines load one of them.
    expect(Object.keys(manifest.dependencies)).toEqual(["@noble/hashes", "smol-toml"]);
    expect(manifest.bundledDependencies).toBeUndefined();
    const peers = Object.keys(manifest.peerDependencies ?? {});
    for (const peer of peers)
      expect([peer, manifest.peerDependenciesMeta[peer]]).toEqual([peer, { optional: true }]);
    for (const hook of ["preinstall", "install", "postinstall", "prepare"])
      expect(manifest.scripts?.[hook]).toBeUndefined();
    expect(manifest.publishConfig.provenance).toBe(true);
    const lock = JSON.parse(
      await readFile(new URL("../../../../../package-lock.json", import.meta.url), "utf8"),
    );
    expect(lock.lockfileVersion).toBeGreaterThanOrEqual(3);
  });
});

/** The statuses on one connection after a request with a wrong Content-Length. */
async function answersOfRaw(port: number, key: string, length: number, body: string): Promise<number[]> {
  const socket = connect(port, "127.0.0.1");
  socket.write(
    `POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: ${key}\r\nContent-Length: ${length}\r\n\r\n${body}`,
  );
  let answer = "";
  await new Promise((resolve) => {
    socket.setEncoding("latin1").on("data", (text) => {
      answer += text;
    });
    socket.once("close", resolve).on("error", () => {});
  });
  return [...answer.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
}
