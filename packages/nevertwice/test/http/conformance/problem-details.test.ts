/** Tests refusals of the layer: problem details for programs and people, which reveal nothing about other requests. */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ERROR_CODES, type ErrorCode } from "../../../src/core/errors.ts";
import { toFingerprint } from "../../../src/core/fingerprint.ts";
import { toIdentity } from "../../../src/core/identity.ts";
import type { Parts, Store } from "../../../src/core/store.ts";
import { sealed } from "../../../src/sealing/index.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { gate, type Received, type ServiceOptions, serve } from "./service.ts";

const KEY = "key-of-a-customer-4711";

/** How to cause each refusal, by its code. */
const REFUSALS: Readonly<Record<string, () => Promise<Received>>> = {
  async "key-missing"() {
    return (await serve({ options: { required: true } })).send();
  },
  async "key-invalid"() {
    return (await serve()).send({ key: `"${KEY}` });
  },
  async "fingerprint-invalid"() {
    return (await serve({ options: { fingerprint: "content-digest" } })).send({ key: KEY });
  },
  async "not-authorized"() {
    return (await serve({ options: { authorize: () => false } })).send({ key: KEY });
  },
  async pending() {
    const door = gate();
    const service = await serve({
      handler: async ({ res }) => {
        await door.pass();
        res.end();
      },
    });
    const first = service.send({ key: KEY });
    await door.reached();
    const answer = await service.send({ key: KEY });
    door.open();
    await first;
    return answer;
  },
  async "already-done"() {
    const service = await serve({ options: { onCompleted: "reject" } });
    await service.send({ key: KEY });
    return service.send({ key: KEY });
  },
  async unknown() {
    const service = await serve({
      options: { onLapsed: "hold", keep: { "5xx": "unknown" } },
      handler: failing,
    });
    await service.send({ key: KEY });
    return service.send({ key: KEY });
  },
  async expired() {
    let now = 0;
    const service = await serve({
      options: { expired: "refuse", retentionMs: 1_000, clock: { now: () => now } },
    });
    await service.send({ key: KEY });
    now = 3_600_000;
    return service.send({ key: KEY });
  },
  async "body-too-large"() {
    return (await serve({ options: { maxBodyBytes: 10 } })).send({ key: KEY });
  },
  async conflict() {
    const service = await serve();
    await service.send({ key: KEY });
    return service.send({ key: KEY, body: { amount: 2 } });
  },
  async "quota-exceeded"() {
    const service = await serve({ options: { quota: 1 } });
    await service.send({ key: "another" });
    return service.send({ key: KEY });
  },
  async "scope-missing"() {
    return (await serve({ options: { scope: () => undefined } })).send({ key: KEY });
  },
  async "sealing-failed"() {
    const store = memoryStore();
    const under = (key: string) => sealed(store, { keys: { k: key.repeat(64) }, current: "k" });
    await (await serve({ store: under("a") })).send({ key: KEY });
    return (await serve({ store: under("b") })).send({ key: KEY });
  },
  async unavailable() {
    return (await serve({ store: unreachable() })).send({ key: KEY });
  },
  async "store-full"() {
    const service = await serve({ store: memoryStore({ maxRecords: 1 }) });
    await service.send({ key: "another" });
    return service.send({ key: KEY });
  },
  async "guard-closed"() {
    const service = await serve();
    await service.guard.close();
    return service.send({ key: KEY });
  },
};

const failing: NonNullable<ServiceOptions["handler"]> = ({ res }) => {
  res.statusCode = 500;
  res.end();
};

const SECRET = "postgres://shop:hunter2@db.internal:5432/orders";

/** A store whose server cannot be reached, and whose driver puts secrets into its errors. */
function unreachable(): Store {
  const fail = async (asked: { readonly parts?: Parts } | string): Promise<never> => {
    throw new Error(`connect ECONNREFUSED ${SECRET} while looking for ${JSON.stringify(asked)}`);
  };
  const failing = Object.fromEntries(
    ["claim", "complete", "abandon", "renew", "read"].map((name) => [name, fail]),
  );
  return { ...memoryStore(), ...failing };
}

interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
}

/** Every refusal, by its code. */
async function everyRefusal(): Promise<readonly (readonly [code: string, answer: Received])[]> {
  const made: (readonly [string, Received])[] = [];
  for (const [code, refuse] of Object.entries(REFUSALS)) made.push([code, await refuse()]);
  return made;
}

describe("a refusal of the layer", () => {
  test("has every code that a request can cause, so that the tests below cover all of them", async () => {
    const atConstruction = ["options-invalid", "manifest-invalid", "driver-missing", "store-unsafe"];
    const ofOtherDoors = ["signature-invalid", "concurrent-modification", "token-spent"];
    const ofTheServer = [
      "request-invalid",
      "not-authenticated",
      "not-found",
      "request-timeout",
      "internal-error",
      "not-supported",
      "upstream-lost",
      "upstream-unreachable",
    ];
    const ofTheAnswer = ["lease-lost", "not-kept"];
    const known = Object.keys(ERROR_CODES).filter(
      (code) => ![...atConstruction, ...ofOtherDoors, ...ofTheServer, ...ofTheAnswer].includes(code),
    );
    expect(Object.keys(REFUSALS).sort()).toEqual(known.sort());
    for (const [code, answer] of await everyRefusal()) expect(answer.json().code).toBe(code);
  });

  test("PD-01 is problem details in JSON", async () => {
    for (const [code, answer] of await everyRefusal()) {
      expect([code, answer.header("content-type")]).toEqual([code, "application/problem+json"]);
      expect(answer.json()).toBeTypeOf("object");
    }
  });

  test("PD-02 has the status of the response in its body", async () => {
    for (const [code, answer] of await everyRefusal()) {
      expect([code, answer.json().status]).toEqual([code, answer.status]);
      expect([code, answer.status]).toEqual([code, ERROR_CODES[code as ErrorCode].status]);
    }
  });

  test("PD-03 has a type that is an absolute URI, a different one for each condition", async () => {
    const refusals = await everyRefusal();
    const types = refusals.map(([, answer]) => answer.json<Problem>().type);
    for (const type of types) expect(new URL(type).href).toBe(type);
    expect(new Set(types).size).toBe(refusals.length);
    const own = await serve({ options: { required: true, problemBase: "https://shop.example/errors/" } });
    expect((await own.send()).json().type).toBe("https://shop.example/errors/key-missing");
  });

  test("PD-04 always has the same title for the same condition", async () => {
    const service = await serve({ options: { keyPattern: /^[a-z]+$/, maxKeyLength: 10 } });
    const occasions = [
      await service.send({ key: '"open' }),
      await service.send({ key: "x".repeat(11) }),
      await service.send({ key: "UPPER" }),
      await service.send({ key: "" }),
    ].map((answer) => answer.json<Problem>());
    expect(new Set(occasions.map(({ code }) => code))).toEqual(new Set(["key-invalid"]));
    expect(new Set(occasions.map(({ title }) => title)).size).toBe(1);
    expect(new Set(occasions.map(({ detail }) => detail)).size).toBe(4);
    const once = await everyRefusal();
    const again = await everyRefusal();
    const titles = (of: typeof once) => of.map(([, answer]) => answer.json<Problem>().title);
    expect(titles(again)).toEqual(titles(once));
  });

  test("PD-07 has names for its own members that RFC 9457 allows", async () => {
    const standard = ["type", "title", "status", "detail", "instance"];
    for (const [, answer] of await everyRefusal()) {
      const own = Object.keys(answer.json()).filter((name) => !standard.includes(name));
      const ofPending = answer.json().code === "pending" ? ["elapsedMs"] : [];
      expect(own).toEqual(["code", "retryable", "documentation", ...ofPending]);
      for (const name of own) expect(name).toMatch(/^[A-Za-z][A-Za-z0-9_]{2,}$/);
    }
  });

  test("PD-08 for another payload reveals nothing of the stored request or its answer", async () => {
    const stored = { iban: "DE02120300000000202051", amount: 4_711 };
    const answers: Received[] = [];
    for (const body of [stored, { other: "thing" }, ["x"]]) {
      const service = await serve({
        handler: ({ res }) => res.writeHead(201, { Location: "/orders/secret-place" }).end("secret answer"),
      });
      await service.send({ key: KEY, body });
      answers.push(await service.send({ key: KEY, body: { amount: 1 } }));
    }
    const shown = answers.map(({ status, lines, text }) => ({
      status,
      lines: lines.filter(([name]) => name !== "date"),
      text,
    }));
    expect(shown[0]?.status).toBe(422);
    expect(shown[1]).toEqual(shown[0]);
    expect(shown[2]).toEqual(shown[0]);
    const visible = JSON.stringify(answers[0]?.lines) + answers[0]?.text;
    const hash = createHash("sha256").update(JSON.stringify(stored)).digest("hex");
    const { id } = toIdentity({ namespace: "default", scope: "", operation: "POST /orders", key: KEY });
    const secrets = [
      "DE02",
      "4711",
      "secret",
      hash.slice(0, 8),
      toFingerprint(stored).slice(-8),
      id.slice(0, 8),
    ];
    for (const secret of secrets) expect(visible).not.toContain(secret);
  });

  test("PD-09 for a store that fails shows no stack, no connection string and no key", async () => {
    const service = await serve({ store: unreachable(), guard: { storeTimeoutMs: 1_000 } });
    const answer = await service.send({ key: KEY });
    expect([answer.status, answer.json().code]).toEqual([503, "unavailable"]);
    const shown = JSON.stringify(answer.lines) + answer.text;
    for (const secret of [
      SECRET,
      "hunter2",
      "db.internal",
      "ECONNREFUSED",
      KEY,
      "    at ",
      ".ts:",
      "node_modules",
    ])
      expect(shown).not.toContain(secret);
    for (const [, refusal] of await everyRefusal()) expect(refusal.text).not.toContain(KEY);
  });

  test("PD-10 has a code that a program can act on", async () => {
    const refusals = await everyRefusal();
    const codes = refusals.map(([, answer]) => answer.json<Problem>().code);
    expect(codes).toEqual(Object.keys(REFUSALS));
    const asked: readonly ErrorCode[] = ["key-missing", "key-invalid", "conflict", "pending", "unavailable"];
    expect(codes).toEqual(expect.arrayContaining([...asked]));
  });
});
