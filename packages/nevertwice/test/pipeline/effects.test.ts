import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { isNevertwiceError } from "../../src/core/errors.ts";
import type { NodeModel } from "../../src/pipeline/model.ts";
import type { PipelineOptions } from "../../src/pipeline/pipeline-options.ts";
import { createPipelineScene, type Shell } from "./scene.ts";

type EffectsMap = NodeModel["effects"];

/** What a shell returns with these effects, or its failure. */
async function shellWith(effects: EffectsMap, shell: Shell, options: PipelineOptions = {}) {
  let answer: unknown;
  let tries = 0;
  const scene = createPipelineScene(
    {
      nodes: {
        call: {
          kind: "sink",
          effects,
          retry: { max: 2, baseMs: 1 },
          shell: (async (decided, context) => {
            tries++;
            answer = await shell(decided, context);
          }) satisfies Shell,
        },
      },
      in: { orders: "call.in" },
    },
    options,
  );
  let outcome: Awaited<ReturnType<typeof scene.pipeline.push>> | undefined;
  // Real sockets take real time: virtual time only advances explicitly.
  const push = scene.pipeline.push("orders", { id: "o-1" }).then((settled) => {
    outcome = settled;
  });
  while (outcome === undefined) {
    await Promise.race([push, new Promise((resolve) => setTimeout(resolve, 2))]);
    await scene.advance(10);
  }
  return { answer, tries, outcome };
}

const all = (axis: "http" | "db" | "time" | "random"): EffectsMap => new Map([[axis, { allow: [] }]]);

describe("effects that are not declared", () => {
  it.each([
    ["http", ((_, { effects }) => effects.http("http://127.0.0.1/")) as Shell],
    ["db", ((_, { effects }) => effects.db("orders")) as Shell],
    ["time", ((_, { effects }) => effects.time.now()) as Shell],
    ["random", ((_, { effects }) => effects.random.uuid()) as Shell],
  ])("are denied and never retried: %s", async (axis, shell) => {
    const { outcome, tries } = await shellWith(new Map(), shell, { databases: { orders: {} } });
    expect(outcome).toMatchObject({
      verdict: "reject",
      failures: [{ phase: "execute", reason: "effect-denied" }],
    });
    expect(isNevertwiceError(outcome.failures[0]?.error, "not-authorized")).toBe(true);
    expect(String(outcome.failures[0]?.error)).toContain(`the node call may not use ${axis}`);
    expect(tries).toBe(1);
  });

  it("are denied by name: a database that is not in the manifest, or not in the databases option", async () => {
    const orders = { name: "orders" };
    const listed: EffectsMap = new Map([["db", { allow: ["orders"] }]]);
    const shell =
      (name: string): Shell =>
      (_, { effects }) =>
        effects.db(name);
    expect((await shellWith(listed, shell("orders"), { databases: { orders } })).answer).toBe(orders);
    const other = await shellWith(listed, shell("ledger"), { databases: { orders, ledger: {} } });
    expect(other.outcome.failures).toMatchObject([{ reason: "effect-denied" }]);
    const denied = await shellWith(all("db"), shell("toString"), { databases: {} });
    expect(denied.outcome.failures).toMatchObject([{ reason: "effect-denied" }]);
  });

  it("a database that a manifest lists must be passed to start", () => {
    const start = () =>
      createPipelineScene({
        nodes: { call: { kind: "sink", effects: new Map([["db", { allow: ["orders"] }]]) } },
        in: { orders: "call.in" },
      });
    expect(start).toThrow(/databases has no "orders", which the node call needs/);
  });

  it("time and random use the pipeline's clock and random source", async () => {
    const effects: EffectsMap = new Map([...all("time"), ...all("random")]);
    const { answer } = await shellWith(
      effects,
      (_, context) => [
        context.effects.time.now(),
        context.effects.random.number(),
        context.effects.random.uuid().length,
      ],
      { clock: { now: () => 42 } },
    );
    expect(answer).toEqual([42, 0.5, 36]);
  });
});

describe("tables of a database", () => {
  const grant: EffectsMap = new Map([["db", { allow: ["main"], tables: ["charges:insert"] }]]);
  const main = { name: "main" };
  const ask =
    (...args: [string, string?]): Shell =>
    (_, { effects }) =>
      effects.db(...args);

  it("are granted with their actions", async () => {
    const { answer } = await shellWith(grant, ask("main", "charges:insert"), { databases: { main } });
    expect(answer).toBe(main);
  });

  it.each([
    ["without naming a table", [undefined], 'db "main" without naming a table'],
    ["with another action", ["charges:delete"], 'db "charges:delete": add it to effects.db.tables'],
    ["with another table", ["ledger:insert"], 'db "ledger:insert": add it to effects.db.tables'],
  ] as const)("are denied %s", async (_, [access], why) => {
    const { outcome, tries } = await shellWith(grant, ask("main", access), { databases: { main } });
    expect(outcome.failures).toMatchObject([{ reason: "effect-denied" }]);
    expect(String(outcome.failures[0]?.error)).toContain(why);
    expect(tries).toBe(1);
  });
});

describe("the grades of random", () => {
  const graded = (grade: "pseudo" | "crypto"): EffectsMap => new Map([["random", { allow: [], grade }]]);
  const draw: Shell = (_, { effects: { random } }) => [
    random.number(),
    random.uuid().length,
    random.bytes(3).length,
  ];

  it("crypto: numbers do not come from the pseudo-random source, which draws 0.5 here", async () => {
    const { answer } = await shellWith(graded("crypto"), draw);
    expect(answer).toEqual([expect.any(Number), 36, 3]);
    expect((answer as number[])[0]).not.toBe(0.5);
  });

  it("pseudo: numbers only", async () => {
    const { answer } = await shellWith(graded("pseudo"), (_, { effects }) => effects.random.number());
    expect(answer).toBe(0.5);
    for (const secret of ["uuid", "bytes"] as const) {
      const { outcome } = await shellWith(graded("pseudo"), (_, { effects }) => effects.random[secret](8));
      expect(String(outcome.failures[0]?.error)).toContain(
        `random.${secret} with the grade "pseudo": write random = "crypto"`,
      );
    }
  });

  it.each([0, 65_537, 1.5])("refuses to make %d bytes", async (count) => {
    const { outcome } = await shellWith(graded("crypto"), (_, { effects }) => effects.random.bytes(count));
    expect(outcome.failures).toMatchObject([{ reason: "RangeError" }]);
  });
});

test("each use of an effect is an event, with its host or database and what was done", async () => {
  const used: unknown[] = [];
  const effects: EffectsMap = new Map([
    ...all("time"),
    ["db", { allow: ["main"], tables: ["charges:insert"] }],
  ]);
  await shellWith(
    effects,
    (_, context) => {
      context.effects.time.now();
      context.effects.db("main", "charges:insert");
    },
    { databases: { main: {} }, onEvent: (event) => event.kind === "effect-used" && used.push(event) },
  );
  expect(used).toMatchObject([
    { node: "call", axis: "time", id: expect.any(String) },
    { node: "call", axis: "db", target: "main", action: "charges:insert" },
  ]);
});

describe("http", () => {
  let server: Server;
  let port = 0;
  const got: { url: string; method: string; body: string; authorization: string | undefined }[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => {
        body += String(chunk);
      });
      request.on("end", () => {
        const { url = "", method = "" } = request;
        got.push({ url, method, body, authorization: request.headers.authorization });
        const [, status, location] = /^\/(30\d)\?to=(.*)$/.exec(url) ?? [];
        if (status === undefined || location === undefined) return response.end("fine");
        return response.writeHead(Number(status), { location: decodeURIComponent(location) }).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, resolve));
    port = (server.address() as AddressInfo).port;
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  const only: EffectsMap = new Map([["http", { allow: ["127.0.0.1"] }]]);
  const at = (path: string, host = "127.0.0.1") => `http://${host}:${port}${path}`;
  const get =
    (url: string, init: RequestInit = {}): Shell =>
    async (_, { effects }) =>
      (await effects.http(url, init)).text();

  it("reaches allowed hosts, also through a redirect", async () => {
    expect((await shellWith(only, get(at("/a")))).answer).toBe("fine");
    const redirect = at(`/302?to=${encodeURIComponent("/b")}`);
    expect((await shellWith(only, get(redirect))).answer).toBe("fine");
    expect(got.at(-1)).toMatchObject({ url: "/b" });
  });

  it("reaches no other host, not even through a redirect", async () => {
    got.length = 0;
    for (const url of [at("/a", "localhost"), at(`/302?to=${encodeURIComponent(at("/b", "localhost"))}`)]) {
      const { outcome, tries } = await shellWith(only, get(url));
      expect(outcome).toMatchObject({ verdict: "reject", failures: [{ reason: "effect-denied" }] });
      expect(tries).toBe(1);
    }
    expect(got.map(({ url }) => url)).toEqual([expect.stringMatching(/^\/302/)]);
  });

  it("keeps body and method after a 307, and uses GET after a 303", async () => {
    for (const [status, method, body] of [
      [307, "POST", "hello"],
      [303, "GET", ""],
    ] as const) {
      await shellWith(only, get(at(`/${status}?to=%2Fc`), { method: "POST", body: "hello" }));
      expect(got.at(-1)).toMatchObject({ url: "/c", method, body });
    }
  });

  it("uses allowed methods only, also after a redirect", async () => {
    const posts: EffectsMap = new Map([["http", { allow: ["127.0.0.1"], methods: ["POST"] }]]);
    got.length = 0;
    const posted = await shellWith(posts, get(at("/e"), { method: "POST" }));
    expect(posted.answer).toBe("fine");
    for (const shell of [get(at("/e")), get(at("/303?to=%2Fe"), { method: "POST" })]) {
      const { outcome } = await shellWith(posts, shell);
      expect(outcome.failures).toMatchObject([{ reason: "effect-denied" }]);
      expect(String(outcome.failures[0]?.error)).toContain("http with GET: add the method");
    }
    expect(got.map(({ method }) => method)).toEqual(["POST", "POST"]);
  });

  it("sends credentials only to the first host", async () => {
    const both: EffectsMap = new Map([["http", { allow: ["127.0.0.1", "localhost"] }]]);
    const init = { headers: { authorization: "Bearer x" } };
    await shellWith(both, get(at(`/302?to=${encodeURIComponent(at("/d", "localhost"))}`), init));
    expect(got.slice(-2).map(({ authorization }) => authorization)).toEqual(["Bearer x", undefined]);
  });
});
