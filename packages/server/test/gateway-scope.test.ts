/** Tests that the owner of the keys of a request comes only from what was authenticated, never from other parts of the request. */
import { execFileSync } from "node:child_process";
import { createHmac, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request as tlsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import type { GatewayRule, ScopeRule } from "../src/gateway/gateway-rules.ts";
import { gatewayBefore, read, type Sent, type Stage, serviceOn } from "./gateway/stage.ts";

const SECRET = "a secret of enough characters";
const NOW = Math.floor(Date.now() / 1_000);
const folder = mkdtempSync(join(tmpdir(), "nevertwice-gateway-"));
afterAll(() => rmSync(folder, { recursive: true }));

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

function tokenOf(payload: string, head: object, signature: (content: string) => Buffer): string {
  const content = `${encoded(head)}.${payload}`;
  return `${content}.${signature(content).toString("base64url")}`;
}

const signedWith = (payload: string, head: object, secret: string) =>
  tokenOf(payload, head, (content) => createHmac("sha256", secret).update(content).digest());

const hs256 = (claims: object, head: object = { alg: "HS256" }, secret = SECRET) =>
  signedWith(encoded(claims), head, secret);

/** A token with exactly this payload text, which `JSON.stringify` may never write. */
const written = (payload: string | Buffer) =>
  signedWith(Buffer.from(payload).toString("base64url"), { alg: "HS256" }, SECRET);

async function counting(
  scope: ScopeRule,
  more: Partial<GatewayRule> = {},
): Promise<Stage & { runs(): number }> {
  let runs = 0;
  const port = await serviceOn(async (req, res) => {
    await read(req);
    res.end(`run ${++runs} for ${req.headers.authorization ?? req.headers["x-tenant"] ?? "nobody"}`);
  });
  const rule: GatewayRule = {
    path: "/*",
    methods: ["POST"],
    required: false,
    scope,
    onUpstreamLost: "unknown",
    ...more,
  };
  return { ...(await gatewayBefore(port, { routes: [rule] })), runs: () => runs };
}

/** The scopes of the callers' keys, without the records of the quota. */
async function scopesIn({ store }: Stage): Promise<(string | undefined)[]> {
  const page = await store.list?.({ namespace: "default", limit: 100 });
  const ofCallers = page?.records.filter(({ parts }) => !parts?.operation.startsWith("nevertwice:"));
  return ofCallers?.map(({ parts }) => parts?.scope) ?? [];
}

const bearer = (token: string): Sent => ({ key: "k", headers: { Authorization: `Bearer ${token}` } });

describe("security rule 4: a scope from a header", () => {
  test("separates the keys of two tenants, and is the same for every request of one tenant", async () => {
    const { send, runs } = await counting({ header: "X-Tenant" });
    const as = (tenant: string) => send({ key: "k", headers: { "X-Tenant": tenant } });
    expect((await as("a")).text).toBe("run 1 for a");
    expect((await as("b")).text).toBe("run 2 for b");
    expect((await as("a")).text).toBe("run 1 for a");
    expect(runs()).toBe(2);
  });

  test("refuses a request whose header is missing, empty or sent twice", async () => {
    const { send, runs } = await counting({ header: "X-Tenant" });
    expect((await send({ key: "k" })).code()).toBe("not-authenticated");
    expect((await send({ key: "k", headers: { "X-Tenant": "" } })).code()).toBe("not-authenticated");
    expect((await send({ key: "k", headers: { "X-Tenant": ["a", "b"] } })).code()).toBe("request-invalid");
    const twice = { Authorization: ["Bearer a", "Bearer b"] };
    const { send: sendCredential } = await counting({ header: "Authorization" });
    expect((await sendCredential({ key: "k", headers: twice })).code()).toBe("request-invalid");
    expect(runs()).toBe(0);
    expect((await send()).status).toBe(200);
  });

  test("is compared exactly: inner spaces, case, commas and bytes all count", async () => {
    const tenants = ["a", "A", "a,b", "a, b", "a b", "a  b", "\u00e9", "\u00c3\u00a9", "a|b", "a\\|b"];
    const stage = await counting({ header: "X-Tenant" });
    for (const tenant of tenants) await stage.send({ key: "k", headers: { "X-Tenant": tenant } });
    expect(stage.runs()).toBe(tenants.length);
    expect(new Set(await scopesIn(stage)).size).toBe(tenants.length);
    expect(await scopesIn(stage)).toContain("header:x-tenant:s:a, b");
  });

  test("never equals the digest of a long owner that is sent as text", async () => {
    const stage = await counting({ header: "X-Tenant" });
    await stage.send({ key: "k", headers: { "X-Tenant": "a".repeat(600) } });
    const [scope = ""] = await scopesIn(stage);
    expect(scope).toMatch(/^header:x-tenant:sha256:[\w-]{43}$/);
    for (const guess of [scope, scope.slice("header:x-tenant:".length)])
      await stage.send({ key: "k", headers: { "X-Tenant": guess } });
    expect(stage.runs()).toBe(3);
  });

  test("is not read from any other part of the request", async () => {
    const { send, runs } = await counting({ header: "X-Tenant" });
    const more = { "X-Tenant": "a", X_Tenant: "b", "X-Forwarded-User": "b" };
    await send({ key: "k", path: "/orders?tenant=b", headers: more, body: '{"tenant":"b"}' });
    await send({ key: "k", path: "/orders?tenant=b", headers: { "X-Tenant": "b" }, body: '{"tenant":"b"}' });
    expect(runs()).toBe(2);
  });

  test("stores only the digest of a credential", async () => {
    const stage = await counting({ header: "Authorization" });
    await stage.send(bearer("very-secret"));
    const scopes = await scopesIn(stage);
    expect(scopes).toEqual([expect.stringMatching(/^header:authorization:sha256:[\w-]{43}$/)]);
  });
});

describe("a scope from a signed token", () => {
  const rule = { jwt: "sub", key: "env:TEST_JWT_SECRET" } as const;
  const withSecret = (more: Partial<typeof rule> & { issuer?: string; audience?: string } = {}) => {
    vi.stubEnv("TEST_JWT_SECRET", SECRET);
    return counting({ ...rule, ...more });
  };

  test("is the claim, whichever token contains it", async () => {
    const stage = await withSecret();
    const [one, two] = [hs256({ sub: "alice", exp: NOW + 60 }), hs256({ sub: "alice", exp: NOW + 90 })];
    await stage.send(bearer(one));
    expect((await stage.send(bearer(two))).headers[REPLAYED]).toBe("true");
    await stage.send(bearer(hs256({ sub: "bob" })));
    expect(stage.runs()).toBe(2);
    expect((await scopesIn(stage)).sort()).toEqual(["jwt:sub:s:alice", "jwt:sub:s:bob"]);
  });

  const [head, body, signature] = hs256({ sub: "alice" }).split(".");
  test.each([
    [
      "is signed with another secret",
      hs256({ sub: "alice" }, { alg: "HS256" }, "another secret of that length"),
    ],
    ["is not signed", tokenOf(encoded({ sub: "alice" }), { alg: "none" }, () => Buffer.alloc(0))],
    ["was changed", `${head}.${encoded({ sub: "mallory" })}.${signature}`],
    ["has expired", hs256({ sub: "alice", exp: NOW - 120 })],
    ["is not valid yet", hs256({ sub: "alice", nbf: NOW + 120 })],
    ["has a time that is not a number", hs256({ sub: "alice", exp: "never" })],
    [
      "has a critical header that the gateway does not know",
      hs256({ sub: "alice" }, { alg: "HS256", crit: ["b64"] }),
    ],
    [
      "has a critical header that only jose knows",
      hs256({ sub: "alice" }, { alg: "HS256", crit: ["b64"], b64: true }),
    ],
    ["has no subject", hs256({ name: "alice" })],
    ["has an empty subject", hs256({ sub: "" })],
    ["has an algorithm that is a method of every object", hs256({}, { alg: "toString" })],
    ["has no signature", `${head}.${body}`],
    ["has a number beyond 2^53", written('{"sub":9007199254740992}')],
    ["has a number that JSON.parse rounds", written('{"sub":9007199254740993}')],
    ["has a negative number beyond 2^53", written('{"sub":-9007199254740993}')],
    ["has a number that is infinite", written('{"sub":1e400}')],
    ["has a fraction", written('{"sub":42.5}')],
    ["has a fraction that JSON.parse rounds away", written('{"sub":42.00000000000000000001}')],
    ["has an exponent", written('{"sub":4.2e1}')],
    ["has a negative zero", written('{"sub":-0}')],
    ["has a boolean", hs256({ sub: true })],
    ["has null", hs256({ sub: null })],
    ["has a list", hs256({ sub: ["alice"] })],
    ["has an object", hs256({ sub: { id: "alice" } })],
    ["names its owner twice", written('{"sub":"alice","sub":"bob"}')],
    ["names its owner twice in two spellings", written('{"sub":"alice","\\u0073ub":"bob"}')],
    ["names its issuer twice", written('{"iss":"us","sub":"alice","iss":"them"}')],
    ["has an issuer that is no text", hs256({ sub: "alice", iss: 42 })],
    ["has half a surrogate pair", written('{"sub":"\\ud800"}')],
    ["is not UTF-8", written(Buffer.from('{"sub":"\xff"}', "latin1"))],
    ["has its owner only further inside", hs256({ act: { sub: "alice" }, note: '"sub":"alice"' })],
  ])("is not believed if it %s", async (_, token) => {
    const { send, runs } = await withSecret();
    const answer = await send(bearer(token));
    expect([answer.status, answer.code(), runs()]).toEqual([401, "not-authenticated", 0]);
  });

  test.each([
    ["the text 42 and the number 42", '{"sub":"42"}', '{"sub":42}', ["jwt:sub:n:42", "jwt:sub:s:42"]],
    [
      "two issuers",
      '{"iss":"https://a","sub":"alice"}',
      '{"iss":"https://b","sub":"alice"}',
      ["jwt:sub@https%3A//a:s:alice", "jwt:sub@https%3A//b:s:alice"],
    ],
    ["upper and lower case", '{"sub":"Alice"}', '{"sub":"alice"}', ["jwt:sub:s:Alice", "jwt:sub:s:alice"]],
    [
      "two Unicode forms",
      '{"sub":"\\u00e9"}',
      '{"sub":"e\\u0301"}',
      ["jwt:sub:s:e\u0301", "jwt:sub:s:\u00e9"],
    ],
  ])("keeps apart %s", async (_, one, two, scopes) => {
    const stage = await withSecret();
    await stage.send(bearer(written(one)));
    expect((await stage.send(bearer(written(two)))).headers[REPLAYED]).toBeUndefined();
    expect((await scopesIn(stage)).sort()).toEqual(scopes);
  });

  test("never equals the digest of a long owner that is sent as text", async () => {
    const stage = await withSecret();
    await stage.send(bearer(hs256({ sub: "a".repeat(600) })));
    const [scope = ""] = await scopesIn(stage);
    expect(scope).toMatch(/^jwt:sub:sha256:[\w-]{43}$/);
    for (const guess of [scope, scope.slice("jwt:sub:".length), scope.slice("jwt:".length)])
      await stage.send(bearer(hs256({ sub: guess })));
    expect(stage.runs()).toBe(4);
  });

  test("needs the issuer and audience of the rule", async () => {
    const { send } = await withSecret({ issuer: "us", audience: "shop" });
    expect((await send(bearer(hs256({ sub: "a", iss: "us", aud: ["shop", "x"] })))).status).toBe(200);
    expect((await send(bearer(hs256({ sub: "a", iss: "them", aud: "shop" })))).status).toBe(401);
    expect((await send(bearer(hs256({ sub: "a", iss: "us" })))).status).toBe(401);
  });

  const pairs: readonly [string, { publicKey: KeyObject; privateKey: KeyObject }, string | null][] = [
    ["RS256", generateKeyPairSync("rsa", { modulusLength: 2_048 }), "sha256"],
    ["ES256", generateKeyPairSync("ec", { namedCurve: "P-256" }), "sha256"],
    ["EdDSA", generateKeyPairSync("ed25519"), null],
  ];
  test.each(pairs)("accepts %s, and refuses the public key as a shared secret", async (alg, pair, digest) => {
    const pem = pair.publicKey.export({ type: "spki", format: "pem" }) as string;
    const file = join(folder, `${alg}.pem`);
    writeFileSync(file, pem);
    const { send } = await counting({ jwt: "sub", key: file });
    const signed = tokenOf(encoded({ sub: "alice" }), { alg }, (content) =>
      sign(digest, Buffer.from(content), { key: pair.privateKey, dsaEncoding: "ieee-p1363" }),
    );
    expect((await send(bearer(signed))).status).toBe(200);
    expect((await send(bearer(hs256({ sub: "alice" }, { alg: "HS256" }, pem)))).status).toBe(401);
    expect((await send(bearer(`${signed.slice(0, -8)}AAAAAAAA`))).status).toBe(401);
  });

  test("needs a valid key at the start, and the error names it", async () => {
    const small = generateKeyPairSync("rsa", { modulusLength: 1_024 }).publicKey;
    writeFileSync(join(folder, "small.pem"), small.export({ type: "spki", format: "pem" }));
    await expect(counting({ jwt: "sub", key: join(folder, "small.pem") })).rejects.toThrow(/2048 bits/);
    await expect(counting({ jwt: "sub", key: "env:TEST_NOT_SET" })).rejects.toThrow(
      /env:TEST_NOT_SET.*16 characters/,
    );
    await expect(counting({ jwt: "sub", key: join(folder, "none.pem") })).rejects.toThrow(
      /none\.pem.*PEM file/,
    );
  });
});

describe("a scope from a client's certificate", () => {
  const at = (name: string) => join(folder, name);
  const openssl = (...words: string[]) => execFileSync("openssl", words, { stdio: "pipe", cwd: folder });

  test("is the subject, and a certificate of an unknown authority is refused", async () => {
    const ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    openssl("req", "-x509", ...ec, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca");
    for (const name of ["server", "alice"]) {
      openssl(
        "req",
        ...ec.slice(0, 5),
        "-keyout",
        `${name}.key`,
        "-out",
        `${name}.csr`,
        "-subj",
        `/CN=${name}`,
      );
      openssl(
        "x509",
        "-req",
        "-in",
        `${name}.csr`,
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-out",
        `${name}.pem`,
      );
    }
    openssl("req", "-x509", ...ec, "-keyout", "mallory.key", "-out", "mallory.pem", "-subj", "/CN=alice");
    const port = await serviceOn((req, res) => res.end(req.headers["x-forwarded-proto"]));
    const rule: GatewayRule = {
      path: "/*",
      methods: ["POST"],
      required: false,
      scope: { certificate: "subject" },
      onUpstreamLost: "unknown",
    };
    const stage = await gatewayBefore(port, {
      routes: [rule],
      tlsCert: at("server.pem"),
      tlsKey: at("server.key"),
      gatewayClientCa: at("ca.pem"),
    });
    const ask = async (name?: string) => {
      const outgoing = tlsRequest({
        port: stage.port,
        host: "127.0.0.1",
        method: "POST",
        agent: false,
        rejectUnauthorized: false,
        headers: { "Idempotency-Key": "k" },
        ...(name !== undefined && {
          cert: readFileSync(at(`${name}.pem`)),
          key: readFileSync(at(`${name}.key`)),
        }),
      }).end("{}");
      const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
      return [answer.statusCode, await read(answer)];
    };
    expect(await ask("alice")).toEqual([200, "https"]);
    expect((await ask("mallory"))[0]).toBe(401);
    expect((await ask())[0]).toBe(401);
    expect(await scopesIn(stage)).toEqual([
      expect.stringMatching(/^certificate:subject:sha256:[\w-]{43}:CN=alice$/),
    ]);
  });
});

test("the scope anyone shares keys between all clients", async () => {
  const { send, runs } = await counting("anyone");
  await send({ key: "k" });
  await send({ key: "k" });
  expect(runs()).toBe(1);
});
