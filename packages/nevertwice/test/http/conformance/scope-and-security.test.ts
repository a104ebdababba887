/** Tests who owns a key, who may see a response, and what an attacker, a flood or a log can see. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import express from "express";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createEngine } from "../../../src/core/engine.ts";
import { toIdentity } from "../../../src/core/identity.ts";
import type { GuardEvent } from "../../../src/core/observer.ts";
import type { Store } from "../../../src/core/store.ts";
import { idempotency } from "../../../src/http/express.ts";
import type { HeaderLine } from "../../../src/http/http-message.ts";
import { sealed } from "../../../src/sealing/index.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { sqliteStore } from "../../../src/stores/sqlite.ts";
import { seededRandom } from "../../../src/testing/random.ts";
import { REPLAYED } from "../replayed-header.ts";
import { gate, listen, notingStore, type Received, type ServiceOptions, serve } from "./service.ts";

const as = (tenant: string): readonly HeaderLine[] => [["X-Tenant", tenant]];
const byTenant = { scope: (request: IncomingMessage) => request.headers["x-tenant"] as string | undefined };

/** The owner of the order, which no other caller may see. */
const tenantsOrder: NonNullable<ServiceOptions["handler"]> = ({ req, res, run }) =>
  res.writeHead(201).end(`order ${run} of ${req.headers["x-tenant"]}`);

async function sqliteFile() {
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-conformance-"));
  const file = join(folder, "records.db");
  const database = new DatabaseSync(file);
  onTestFinished(async () => {
    database.close();
    await rm(folder, { recursive: true, force: true });
  });
  return { file, database };
}

/** An answer without its date, which differs each time. */
const shown = ({ status, lines, text }: Received) => ({
  status,
  lines: lines.filter(([name]) => name !== "date"),
  text,
});

describe("the owner of a key", () => {
  test("SC-01 the same key of two tenants is two keys, and each tenant sees only its own answer", async () => {
    const service = await serve({ options: byTenant, handler: tenantsOrder });
    const a = await service.send({ key: "k", headers: as("a") });
    const b = await service.send({ key: "k", headers: as("b") });
    expect([a.text, b.text]).toEqual(["order 1 of a", "order 2 of b"]);
    expect(b.header(REPLAYED)).toBeUndefined();
    expect((await service.send({ key: "k", headers: as("a") })).text).toBe("order 1 of a");
    expect((await service.send({ key: "k", headers: as("b") })).text).toBe("order 2 of b");
    expect(service.runs()).toBe(2);
  });

  test("SC-02 one key on two endpoints is two keys", async () => {
    const service = await serve({ options: byTenant, handler: tenantsOrder });
    const paths = ["/orders", "/refunds", "/orders", "/refunds"];
    const texts: string[] = [];
    for (const path of paths) texts.push((await service.send({ key: "k", path, headers: as("a") })).text);
    expect(texts).toEqual(["order 1 of a", "order 2 of a", "order 1 of a", "order 2 of a"]);
  });

  test.each([
    ["memory", async () => memoryStore()],
    ["SQLite", async () => sqliteStore({ database: (await sqliteFile()).database })],
  ])(
    "SC-03 a hostile key is stored like any other or refused, and affects no other record: on %s",
    async (_, open) => {
      const store = await open();
      const service = await serve({ store, options: byTenant, handler: tenantsOrder });
      const victim = await service.send({ key: "victim", headers: as("a") });
      const taken: string[] = [];
      for (const key of HOSTILE) {
        const first = await service.send({ key: `"${key.replace(/["\\]/g, "\\$&")}"`, headers: as("a") });
        expect([key, first.status]).toEqual([key, 201]);
        taken.push(first.text);
      }
      // Each key has its own answer, and replays it.
      expect(new Set(taken).size).toBe(HOSTILE.length);
      for (const [index, key] of HOSTILE.entries()) {
        const again = await service.send({ key: `"${key.replace(/["\\]/g, "\\$&")}"`, headers: as("a") });
        expect([key, again.text]).toEqual([key, taken[index]]);
        const record = await service.guard.read({ operation: "POST /orders", scope: "a", key });
        expect(record?.key).toBe(key);
      }
      expect((await service.send({ key: "victim", headers: as("a") })).text).toBe(victim.text);
      for (const key of ['"a\r\n b"', '"a\u0000b"', '"ä"', "a b"]) {
        const refused = service.send({ key, headers: as("a") });
        // A client refuses to send a line break.
        const status = await refused.then(
          (answer) => answer.status,
          () => "unsendable",
        );
        expect([400, "unsendable"]).toContain(status);
      }
      expect(service.runs()).toBe(HOSTILE.length + 1);
    },
  );

  test("SC-04 no separator in a scope or a key makes two owners equal", async () => {
    const service = await serve({ options: byTenant, handler: tenantsOrder });
    for (const mark of [":", "|", "/", ",", ";", "#", "\\", "::", "-", "%00"]) {
      const before = service.runs();
      const one = await service.send({ key: "c", headers: as(`a${mark}b`) });
      const other = await service.send({ key: `"b${mark.replace("\\", "\\\\")}c"`, headers: as("a") });
      expect(one.text).not.toBe(other.text);
      expect(other.header(REPLAYED)).toBeUndefined();
      expect(service.runs()).toBe(before + 2);
    }
  });

  test("SC-05 a caller who is not signed in gets a 401, even with a known key", async () => {
    const shop = await signedInShop();
    expect((await shop.send({ key: "k", headers: [["Authorization", "ann"]] })).text).toBe("order 1 of ann");
    const stranger = await shop.send({ key: "k" });
    expect([stranger.status, stranger.text, stranger.header(REPLAYED)]).toEqual([401, "", undefined]);
    expect(shop.runs()).toBe(1);
  });

  test("SC-06 a caller who lost the permission gets a 403 instead of the answer, and the store is not called", async () => {
    const { store, calls } = notingStore(memoryStore());
    let isAllowed = true;
    const service = await serve({
      store,
      options: { ...byTenant, authorize: async () => isAllowed },
      handler: tenantsOrder,
    });
    await service.send({ key: "k", headers: as("a") });
    isAllowed = false;
    const before = calls.length;
    const refused = await service.send({ key: "k", headers: as("a") });
    expect([refused.status, refused.json().code]).toEqual([403, "not-authorized"]);
    expect(refused.text).not.toContain("order 1");
    expect(calls).toHaveLength(before);
    isAllowed = true;
    expect((await service.send({ key: "k", headers: as("a") })).text).toBe("order 1 of a");
    expect(service.runs()).toBe(1);
  });

  test("SC-10 answers and store calls do not reveal whether another tenant's key is unknown, running or completed", async () => {
    const { store, calls } = notingStore(memoryStore());
    const door = gate();
    const service = await serve({
      store,
      options: byTenant,
      handler: async ({ req, res }) => {
        if (req.headers["x-tenant"] === "victim" && req.headers["x-slow"] !== undefined) await door.pass();
        res.writeHead(201).end("an order");
      },
    });
    await service.send({ key: "done", headers: as("victim") });
    const running = service.send({ key: "running", headers: [...as("victim"), ["X-Slow", "1"]] });
    await door.reached();
    const probe = async (key: string) => {
      const before = calls.length;
      const answers = [
        await service.send({ key, headers: as("spy") }),
        await service.send({ key, headers: as("spy") }),
        await service.send({ key, headers: as("spy"), body: { other: "payload" } }),
      ];
      const asked = calls.slice(before).map(({ method, request }) => ({ method, shape: shapeOf(request) }));
      return { answers: answers.map(shown), asked };
    };
    const unknown = await probe("unseen");
    expect(unknown.answers.map(({ status }) => status)).toEqual([201, 201, 422]);
    expect(await probe("running")).toEqual(unknown);
    expect(await probe("done")).toEqual(unknown);
    // The spy's requests never read the victim's record.
    const { id } = toIdentity({
      namespace: "default",
      scope: "victim",
      operation: "POST /orders",
      key: "done",
    });
    const ids = calls.map(({ request }) => request.id);
    expect(ids.filter((asked) => asked === id)).toHaveLength(2);
    door.open();
    await running;
  });

  test("SC-10 owners, routes and keys that are the same text when joined have one record each", () => {
    const random = seededRandom(17);
    const marks = [":", "|", "/", ",", "\u0000", "1", "a", "é"];
    const ids = new BigUint64Array(100_000);
    let count = 0;
    while (count < ids.length) {
      // Every two cuts through one text are another owner, route and key.
      const text = Array.from({ length: 48 }, () => marks[random.between(0, marks.length - 1)]).join("");
      for (let i = 1; i < text.length; i++)
        for (let j = i + 1; j < text.length && count < ids.length; j++) {
          const scope = text.slice(0, i);
          const operation = text.slice(i, j);
          const { id } = toIdentity({ namespace: "shop", scope, operation, key: text.slice(j) });
          ids[count++] = BigInt(`0x${id.slice(0, 16)}`);
        }
    }
    ids.sort();
    let alike = 0;
    for (let i = 1; i < ids.length; i++) if (ids[i] === ids[i - 1]) alike++;
    expect([count, alike]).toEqual([100_000, 0]);
  });
});

describe("a service under attack or without its store", () => {
  test("SC-07 no log, no event and no problem shows a key in full", async () => {
    const key = "a-key-that-must-stay-secret-4711";
    const lines: unknown[][] = [];
    for (const method of ["log", "info", "warn", "error", "debug"] as const)
      vi.spyOn(console, method).mockImplementation((...line) => void lines.push(line));
    const written: unknown[] = [];
    for (const stream of [process.stdout, process.stderr])
      vi.spyOn(stream, "write").mockImplementation((chunk) => {
        written.push(chunk);
        return true;
      });
    const problems: string[] = [];
    const events: GuardEvent[] = [];
    const meet = async (
      settings: ServiceOptions,
      ...sent: Parameters<Awaited<ReturnType<typeof serve>>["send"]>[0][]
    ) => {
      const service = await serve(settings);
      for (const each of sent) {
        const answer = await service.send(each);
        problems.push(JSON.stringify(answer.lines) + answer.text);
      }
      events.push(...service.events);
    };
    const done = ({ res }: { res: { end(text: string): unknown } }) => res.end("done");
    await meet({ handler: done }, { key }, { key }, { key, body: { other: 1 } });
    await meet({ handler: done, options: { keyPattern: /^x$/ } }, { key });
    await meet({ handler: done, options: { maxKeyLength: 5 } }, { key });
    await meet({ handler: done }, { key: `"${key}` }, { key: `${key},${key}` });
    await meet({ handler: done, store: failing(memoryStore(), ["claim"]) }, { key });
    await meet(
      { handler: done, store: failing(memoryStore(), ["complete"]), guard: { completeWaitMs: 50 } },
      { key },
    );
    await meet({ handler: done, options: { onCompleted: "reject" } }, { key }, { key });
    vi.restoreAllMocks();
    const shown = [...lines.flat(), ...written, ...problems].map(String).join("\n");
    expect(shown).not.toContain(key);
    const kinds = new Set(events.map(({ kind }) => kind));
    expect(kinds).toEqual(new Set(["claimed", "completed", "replayed", "conflict", "unavailable"]));
    expect(JSON.stringify(events)).not.toContain(key);
    const { id } = toIdentity({ namespace: "default", scope: "", operation: "POST /orders", key });
    // Events show only a part of the record's id, which is enough to find it.
    expect(JSON.stringify(events)).toContain(id.slice(0, 16));
    expect(JSON.stringify(events)).not.toContain(id);
  });

  test("SC-08 a store that cannot be reached causes a 503 with Retry-After, and nothing runs", async () => {
    const service = await serve({ store: failing(memoryStore(), ["claim", "read", "abandon"]) });
    const answer = await service.send({ key: "k" });
    expect([answer.status, answer.json().code]).toEqual([503, "unavailable"]);
    expect(answer.header("retry-after")).toMatch(/^[1-9]\d*$/);
    expect(service.runs()).toBe(0);
    // Without a key there is nothing to look up, and the service continues.
    expect((await service.send()).status).toBe(201);
  });

  test("SC-09 a flood of fresh keys is stopped at the quota, and the refusal is not kept", async () => {
    const { store, calls } = notingStore(memoryStore());
    const service = await serve({ store, options: { ...byTenant, quota: 5 }, handler: tenantsOrder });
    const statuses: number[] = [];
    for (let i = 0; i < 8; i++)
      statuses.push((await service.send({ key: `k${i}`, headers: as("flood") })).status);
    expect(statuses).toEqual([201, 201, 201, 201, 201, 429, 429, 429]);
    const isClaimOfKey = ({ method, request }: (typeof calls)[number]) =>
      method === "claim" && request.parts.operation === "POST /orders";
    expect(calls.filter(isClaimOfKey)).toHaveLength(5);
    const refused = await service.send({ key: "k7", headers: as("flood") });
    expect([refused.json().code, refused.header("retry-after")]).toEqual([
      "quota-exceeded",
      expect.stringMatching(/^\d+$/),
    ]);
    // Its existing keys are still answered, and other callers are not affected.
    expect((await service.send({ key: "k0", headers: as("flood") })).text).toBe("order 1 of flood");
    expect((await service.send({ key: "k7", headers: as("other") })).status).toBe(201);
    expect(
      await service.guard.read({ operation: "POST /orders", scope: "flood", key: "k7" }),
    ).toBeUndefined();
  });

  test("SC-11 a downstream system gets a derived key, which is the same on every attempt and never the client's key", async () => {
    const sent: Record<string, string>[] = [];
    const service = await serve({
      handler: ({ res, attempt, run }) => {
        sent.push({ psp: attempt?.deriveKey("psp") ?? "", mail: attempt?.deriveKey("mail") ?? "" });
        res.writeHead(run === 1 ? 500 : 201).end();
      },
    });
    await service.send({ key: "client-key" });
    await service.send({ key: "client-key" });
    expect(sent).toHaveLength(2);
    expect(sent[1]).toEqual(sent[0]);
    expect(sent[0]?.psp).not.toBe(sent[0]?.mail);
    for (const key of Object.values(sent[0] ?? {})) {
      expect(key).toMatch(/^[\w-]{43}$/);
      expect(key).not.toContain("client-key");
    }
    await service.send({ key: "another-key" });
    expect(sent[2]?.psp).not.toBe(sent[0]?.psp);
  });

  test("SC-12 a sealed store encrypts answers at rest, and they are still replayed", async () => {
    const { file, database } = await sqliteFile();
    const secret = "the medical report of Ann";
    const service = await serve({
      store: sealed(sqliteStore({ database }), { keys: { k: randomBytes(32) }, current: "k" }),
      handler: ({ res }) => res.writeHead(201, { "Content-Type": "text/plain" }).end(secret),
    });
    await service.send({ key: "k" });
    const again = await service.send({ key: "k" });
    expect([again.status, again.text, again.header(REPLAYED)]).toEqual([201, secret, "true"]);
    expect(service.runs()).toBe(1);
    const atRest = await bytesAt(file);
    expect(atRest.includes("nevertwice_records")).toBe(true);
    for (const readable of [secret, "medical", "text/plain"]) expect(atRest.includes(readable)).toBe(false);
    const plain = await sqliteFile();
    const unsealed = await serve({
      store: sqliteStore({ database: plain.database }),
      handler: ({ res }) => res.end(secret),
    });
    await unsealed.send({ key: "k" });
    expect((await bytesAt(plain.file)).includes(secret)).toBe(true);
  });
});

const HOSTILE = [
  "'; DROP TABLE nevertwice_records; --",
  "' OR '1'='1",
  'x"; DELETE FROM nevertwice_records; --',
  "%",
  "_",
  "*",
  "?",
  "[a-z]*",
  "k{tag}",
  "../../etc/passwd",
  "..%2f..%2f",
  "%0d%0aSet-Cookie:%20a=b",
  "\\r\\nSet-Cookie: a=b",
  "$(reboot)",
  "`reboot`",
  "#{jndi:ldap://x}",
  "__proto__",
  "constructor",
  "toString",
  "KEYS[1]",
  "nevertwice:*",
  "victim ",
  " victim",
  "VICTIM",
  "victim%",
  "NULL",
  "0",
  "-1",
  "true",
  "{}",
  "[]",
];

/** A store whose calls of these methods fail. */
function failing(inner: Store, methods: readonly (keyof Store)[]): Store {
  const fail = async () => {
    throw new Error("connection refused");
  };
  return { ...inner, ...Object.fromEntries(methods.map((method) => [method, fail])) };
}

/** The bytes of the database and its log on disk. */
async function bytesAt(file: string): Promise<Buffer> {
  const parts = [file, `${file}-wal`].map((path) => readFile(path).catch(() => Buffer.alloc(0)));
  return Buffer.concat(await Promise.all(parts));
}

/** A call without the values that must differ: ids, tokens, keys and scopes are replaced by their length. */
function shapeOf(request: unknown): unknown {
  if (typeof request !== "object" || request === null) return typeof request;
  return Object.fromEntries(
    Object.entries(request).map(([name, value]) => {
      if (name === "parts") return [name, Object.keys(value as object)];
      return [name, ["id", "token"].includes(name) ? String(value).length : value];
    }),
  );
}

/** An Express application that signs its callers in before the layer, as the documentation recommends. */
async function signedInShop() {
  const app = express();
  const guard = createEngine({ store: memoryStore(), purgeEveryMs: 0 });
  let runs = 0;
  app.post(
    "/orders",
    (req, res, next) => {
      if (req.headers.authorization === undefined) res.status(401).end();
      else next();
    },
    idempotency(guard, { scope: (req) => req.headers.authorization }),
    (req, res) => {
      res.status(201).send(`order ${++runs} of ${req.headers.authorization}`);
    },
  );
  return { ...(await listen(app)), runs: () => runs };
}
