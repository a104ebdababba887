/** The OpenAPI document describes exactly what the server does. */
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { MAX_FAILURES } from "../src/failed-tries.ts";
import { type Call, callerOf, callWith, type Document, documentOf, startServer } from "./api-client.ts";

/** These names must stay; more may be added. */
const PATHS = [
  "/v1/claims",
  "/v1/claims/{id}",
  "/v1/claims/{id}/complete",
  "/v1/claims/{id}/abandon",
  "/v1/claims/{id}/renew",
  "/v1/events",
  "/v1/keys",
  "/v1/policy",
];

const METHODS = ["GET", "POST", "DELETE"];

function operationsOf(document: Document) {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
}

test("every route is in the document, and every operation of the document is a route", async () => {
  const server = await startServer();
  const document = await documentOf(server);
  const documented = operationsOf(document).map(({ method, path }) => `${method} ${path}`);
  expect(documented.sort()).toEqual(server.routes.map(({ method, path }) => `${method} ${path}`).sort());
  for (const path of PATHS) expect(Object.keys(document.paths)).toContain(path);
  for (const { path, method } of operationsOf(document)) {
    expect(server.app.hasRoute({ method: method as "GET", url: path.replace(/\{(\w+)\}/g, ":$1") })).toBe(
      true,
    );
    expect(METHODS).toContain(method);
  }
});

test("the document names its server and its tags, and describes filter words and roles", async () => {
  const document = await documentOf(await startServer());
  expect(document.servers).toEqual([{ url: "/", description: "The server that this document comes from." }]);
  const used = operationsOf(document).flatMap(({ operation }) => operation.tags);
  expect(new Set(document.tags.map(({ name }) => name))).toEqual(new Set(used));
  for (const { operation } of operationsOf(document)) {
    const { description, parameters = [], "x-roles": roles } = operation;
    expect(description).toMatch(roles.length === 0 ? /Every role/ : new RegExp(`: ${roles.join(", ")}\\.$`));
    for (const { name, schema, description: words = "" } of parameters) {
      const { enum: values = [] } = schema as { readonly enum?: readonly string[] };
      if (name === "state") for (const value of values) expect(words).toContain(`\`${value}\``);
      if (name === "scope") expect(words).toContain("tenant");
    }
  }
});

test("client generators can use the document", async () => {
  const document = await documentOf(await startServer());
  expect(document).toMatchObject({ openapi: "3.1.0", info: { title: "nevertwice" } });
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false });
  const ids = operationsOf(document).map(({ operation }) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { path, operation } of operationsOf(document)) {
    const named = (operation.parameters ?? [])
      .filter(({ in: place }) => place === "path")
      .map(({ name }) => name);
    expect(named).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
    const body = operation.requestBody?.content["application/json"].schema;
    if (body !== undefined) expect(() => ajv.compile(body)).not.toThrow();
    for (const { schema } of operation.parameters ?? []) expect(() => ajv.compile(schema)).not.toThrow();
    for (const [status, { content = {} }] of Object.entries(operation.responses)) {
      const expected =
        Number(status) < 400 ? /^(application\/json|text\/)/ : /^application\/(problem\+)?json$/;
      for (const [type, { schema }] of Object.entries(content)) {
        expect(type).toMatch(expected);
        if (schema.$ref === undefined) expect(() => ajv.compile(schema)).not.toThrow();
      }
    }
  }
});

/** Statuses that every operation documents, and how to cause each. */
async function common(server: Awaited<ReturnType<typeof startServer>>, document: Document): Promise<Reached> {
  const reached: Reached = new Map();
  const operator = await callerOf(server, "operator", { name: "operator" });
  const service = await callerOf(server, "service", { name: "service" });
  const nobody = callWith(server);
  const uncached = callWith(server, `nt_${"0".repeat(16)}_${"A".repeat(43)}`);
  for (const { method, path, operation } of operationsOf(document)) {
    const address = path.replace(/\{\w+\}/, "0".repeat(64));
    const note = async (answer: ReturnType<Call>) => add(reached, `${method} ${path}`, (await answer).status);
    await note(nobody(method, address));
    await note(operator(method, address, undefined, { headers: { host: "evil.example" } }));
    if (operation.requestBody === undefined) continue;
    const headers = { "content-type": "application/json" };
    for (const caller of [operator, service])
      await note(caller(method, address, `"${"x".repeat(1_600_000)}"`, { headers }));
  }
  const { store } = server.context;
  const read = store.read.bind(store);
  Object.assign(store, { read: () => Promise.reject(new Error("the store is gone")) });
  for (const { method, path } of operationsOf(document)) {
    const { status } = await uncached(method, path.replace(/\{\w+\}/, "0".repeat(64)));
    add(reached, `${method} ${path}`, status);
  }
  Object.assign(store, { read });
  return reached;
}

type Reached = Map<string, Set<number>>;

function add(reached: Reached, operation: string, status: number): void {
  reached.set(operation, (reached.get(operation) ?? new Set()).add(status));
}

/** A sequence of requests that causes all other documented statuses. */
async function walk(server: Awaited<ReturnType<typeof startServer>>): Promise<Reached> {
  const reached: Reached = new Map();
  const callers = {
    shop: await callerOf(server, "service", { name: "shop" }),
    ops: await callerOf(server, "operator", { name: "ops" }),
  };
  const call = async (who: keyof typeof callers, method: string, path: string, body?: unknown) => {
    const answer = await callers[who](method, path, body);
    const pattern = path.replace(/\?.*/, "").replace(/(claims|keys)\/(?!resolve$)[^/]+/, "$1/{id}");
    add(reached, `${method} ${pattern}`, answer.status);
    return answer.body;
  };
  const nothing = "0".repeat(64);
  const token = "a-token-that-nobody-has";
  const claim = { operation: "charge", key: "a", fingerprint: 1, onLapsed: "hold" };
  const first = await call("shop", "POST", "/v1/claims", claim);
  await call("shop", "POST", "/v1/claims", claim);
  await call("shop", "POST", "/v1/claims", { ...claim, fingerprint: 2 });
  await call("shop", "POST", "/v1/claims", {});
  await call("shop", "GET", `/v1/claims/${first.id}`);
  await call("shop", "GET", `/v1/claims/${nothing}`);
  await call("shop", "GET", "/v1/claims/nonsense");
  await call("ops", "GET", "/v1/keys/nonsense");
  for (const [verb, more] of [
    ["renew", {}],
    ["complete", { value: 1 }],
  ] as const) {
    await call("shop", "POST", `/v1/claims/${first.id}/${verb}`, { token: first.token, ...more });
    await call("shop", "POST", `/v1/claims/${first.id}/${verb}`, { token, ...more });
    await call("shop", "POST", `/v1/claims/${first.id}/${verb}`, {});
  }
  await call("shop", "POST", "/v1/claims", claim);
  const second = await call("shop", "POST", "/v1/claims", { ...claim, key: "b" });
  const { id, fence } = second;
  for (const verb of ["resolve", "release", "forget"]) {
    const body = { fence, ...(verb === "resolve" && { decision: "not-done" }) };
    await call("ops", "POST", `/v1/keys/${id}/${verb}`, body);
    await call("ops", "POST", `/v1/keys/${nothing}/${verb}`, body);
    await call("ops", "POST", `/v1/keys/${id}/${verb}`, {});
  }
  await call("shop", "POST", `/v1/claims/${id}/abandon`, { token: second.token, as: "unknown" });
  await call("shop", "POST", `/v1/claims/${id}/abandon`, { token });
  await call("shop", "POST", `/v1/claims/${id}/abandon`, {});
  await call("ops", "GET", "/v1/keys");
  await call("ops", "GET", "/v1/keys?limit=0");
  const many = { operation: "nothing", before: 1, decision: "done" };
  await call("ops", "POST", "/v1/keys/resolve", many);
  await call("ops", "POST", "/v1/keys/resolve", {});
  await call("ops", "GET", `/v1/keys/${id}`);
  await call("ops", "GET", `/v1/keys/${nothing}`);
  await call("ops", "POST", `/v1/keys/${id}/derived-keys`, { names: ["psp"] });
  await call("ops", "POST", `/v1/keys/${nothing}/derived-keys`, { names: ["psp"] });
  await call("ops", "POST", `/v1/keys/${id}/derived-keys`, {});
  await call("ops", "GET", "/v1/namespaces");
  await call("ops", "GET", "/v1/namespaces?limit=0");
  await call("ops", "POST", `/v1/keys/${id}/resolve`, { fence, decision: "done" });
  const decided = (await call("ops", "GET", `/v1/keys/${id}`)).record;
  await call("ops", "POST", `/v1/keys/${id}/release`, { fence: decided.fence });
  await withoutMethods(server, async () => {
    await call("ops", "GET", "/v1/keys");
    await call("ops", "POST", "/v1/keys/resolve", many);
    const { record } = await call("ops", "GET", `/v1/keys/${first.id}`);
    for (const verb of ["release", "forget"])
      await call("ops", "POST", `/v1/keys/${first.id}/${verb}`, { fence: record.fence });
  });
  await call("ops", "POST", `/v1/keys/${id}/forget`, { fence: decided.fence });
  await call("shop", "POST", "/v1/events", { key: "e" });
  await call("shop", "POST", "/v1/events", { key: "e" });
  await call("shop", "POST", "/v1/events", { operation: "charge", key: "c" });
  await call("shop", "POST", "/v1/claims", { operation: "event", key: "f" });
  await call("shop", "POST", "/v1/events", { key: "f" });
  for (const path of ["/v1/events", "/v1/events/seen", "/v1/events/release"]) {
    await call("shop", "POST", path, { key: "e" });
    await call("shop", "POST", path, {});
  }
  for (const path of ["/v1/policy", "/v1/live", "/v1/doctor"]) await call("ops", "GET", path);
  for (const path of ["/v1/policy", "/v1/live", "/v1/live/stream", "/v1/doctor"])
    await call("ops", "GET", `${path}?nothing=1`);
  return reached;
}

/** Exceeds the limit of wrong tokens. It runs last, since the other requests come from the same address. */
async function guess(
  server: Awaited<ReturnType<typeof startServer>>,
  document: Document,
  reached: Reached,
): Promise<void> {
  const guesser = callWith(server, "nt_wrong");
  for (let index = 0; index < MAX_FAILURES; index++) await guesser("GET", "/v1/policy");
  for (const { method, path } of operationsOf(document))
    add(
      reached,
      `${method} ${path}`,
      (await guesser(method, path.replace(/\{\w+\}/, "0".repeat(64)))).status,
    );
}

/** Uses a store that can neither list nor forget. */
async function withoutMethods(server: Awaited<ReturnType<typeof startServer>>, run: () => Promise<void>) {
  const { store } = server.context;
  const { list, forget } = store;
  Object.assign(store, { list: undefined, forget: undefined });
  await run();
  Object.assign(store, { list, forget });
}

/** Holds and their audit have their own tests. */
const OURS = /^\/v1\/(claims|events|keys|namespaces|policy|live|doctor)\b/;

/** Statuses that these requests cannot cause, with the reason. */
const JUSTIFIED: Readonly<Record<string, readonly number[]>> = {
  // A stream has no end that could be awaited here: api-live.test.ts has it.
  "GET /v1/live/stream": [200],
  // Every store can decide; the two others need what a store may lack.
  "POST /v1/keys/{id}/resolve": [501],
  // Only callers that see the whole server ask the store: api-key-lists.test.ts has it.
  "GET /v1/namespaces": [501],
};

describe("every documented status", () => {
  test("of claims, events, keys, policy and live occurs, or has a reason why it cannot", async () => {
    const server = await startServer();
    const document = await documentOf(server);
    const all = await common(server, document);
    for (const [operation, statuses] of await walk(server))
      for (const status of statuses) add(all, operation, status);
    await guess(server, document, all);
    const missing = operationsOf(document)
      .filter(({ path }) => OURS.test(path))
      .flatMap(({ method, path, operation }) => {
        const name = `${method} ${path}`;
        const met = [...(all.get(name) ?? []), ...(JUSTIFIED[name] ?? [])];
        return Object.keys(operation.responses)
          .filter((status) => !met.includes(Number(status)))
          .map((status) => `${name} ${status}`);
      });
    expect(missing).toEqual([]);
  });
});
