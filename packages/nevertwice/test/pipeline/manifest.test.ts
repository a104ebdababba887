/** Tests valid manifests: the model, its graph, its description. */
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { isNevertwiceError } from "../../src/core/errors.ts";
import { createGuard } from "../../src/functions/guard.ts";
import {
  definePipeline,
  loadPipeline,
  manifestProblems,
  type NetworkManifest,
  type NodeManifest,
} from "../../src/pipeline/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const ORDERS = new URL("../../../../examples/pipeline/orders.toml", import.meta.url);

const CHARGE: NodeManifest = {
  node: { id: "charge", version: "1.0.0", kind: "transform" },
  ports: { in: { in: { schema: "Order@1" } }, out: { charged: {} } },
  contract: {
    pure_core: (order: object) => order,
    effect_shell: (order: object, { emit }) => emit("charged", order),
    idempotency: { key: "request_id" },
  },
};

const SHOP: NetworkManifest = {
  network: { id: "shop", version: "1.0.0" },
  schemas: { "Order@1": (payload: unknown) => typeof payload === "object" },
  nodes: { charge: { use: CHARGE } },
  expose: { in: { orders: "charge.in" }, out: { charged: "charge.charged" } },
};

function problemsOf(manifest: unknown): readonly string[] {
  try {
    definePipeline(manifest as NetworkManifest);
    return [];
  } catch (error) {
    if (!isNevertwiceError(error, "manifest-invalid")) throw error;
    return manifestProblems(error).map(({ file, at, problem, fix }) => `${file} ${at}: ${problem}; ${fix}`);
  }
}

/** What the manifest of the node that charges says. */
const CONTRACT = {
  timeoutMs: 5_000,
  retry: {
    strategy: "exponential",
    max: 3,
    baseMs: 20,
    capMs: 30_000,
    jitter: 0.5,
    on: ["timeout", "bank-busy"],
  },
  idempotency: { fields: ["customer", "request_id"], retentionMs: 2_592_000_000 },
};

describe("a network from files", () => {
  it("is flat: the nodes of a network that it uses have its name as a prefix", async () => {
    const { model } = await loadPipeline(ORDERS);
    expect([...model.nodes.keys()]).toEqual(["price", "size", "billing/charge", "review"]);
    expect(model.edges).toContainEqual({
      from: { node: "size", port: "small" },
      to: { node: "billing/charge", port: "in" },
    });
    expect(Object.fromEntries(model.exposed.out)).toEqual({
      receipts: { node: "billing/charge", port: "charged" },
    });
  });

  it("has the values of its manifests in its model, with durations in milliseconds", async () => {
    const { model } = await loadPipeline(fileURLToPath(ORDERS));
    const charge = model.nodes.get("billing/charge");
    expect(charge).toMatchObject({
      id: "charge",
      kind: "transform",
      reply: true,
      concurrency: 8,
      doc: { owner: "payments" },
      capture: { maxBytes: 256, redact: ["card"] },
    });
    expect(charge?.contract).toMatchObject(CONTRACT);
    expect([...(charge?.effects ?? [])]).toEqual([["time", { allow: [] }]]);
    expect(model.nodes.get("price")?.in.get("in")).toMatchObject({ schema: { name: "Order@1" }, buffer: 20 });
    expect(model.nodes.get("size")?.in.get("in")?.buffer).toBe(100);
    expect(model.nodes.get("size")?.concurrency).toBe(1);
    expect(model.supervision).toEqual({ strategy: "one-for-one", restarts: 3, withinMs: 5_000 });
  });

  it("has the functions that its references name", async () => {
    const { model } = await loadPipeline(ORDERS);
    const code = await import("../../../../examples/pipeline/nodes.js");
    expect(model.nodes.get("billing/charge")?.contract.effectShell).toBe(code.charge);
    expect(model.nodes.get("price")?.contract.pureCore).toBe(code.price);
  });

  it("reports a missing file with its path, and a node's file as a node", async () => {
    const missing = await loadPipeline("no/such/network.toml").catch((error: unknown) => error);
    expect(String(missing)).toContain("no/such/network.toml: there is no such file; correct the path.");
    const alone = await loadPipeline(new URL("./price.node.toml", ORDERS)).catch((error: unknown) => error);
    expect(String(alone)).toContain("price.node.toml:1: this is a node, not a network");
  });
});

describe("the graph of a network", () => {
  it("is a Mermaid flowchart with kinds, keys, ports and the networks inside", async () => {
    const { graph } = await loadPipeline(ORDERS);
    expect(graph()).toBe(`flowchart LR
  n1["price"]
  n2{"size"}
  n4[["review<br/>key: customer, request_id"]]
  subgraph gn3_1["billing"]
    n3["charge<br/>key: customer, request_id"]
  end
  in1(("orders"))
  out1(("receipts"))
  in1 -->|"in"| n1
  n1 -->|"priced → in"| n2
  n2 -->|"small → in"| n3
  n2 -->|"large → in"| n4
  n3 -->|"charged"| out1
`);
  });
});

describe("the description of a network", () => {
  it("is data about each node, including its idempotency policy", async () => {
    const { describe: description } = await loadPipeline(ORDERS);
    const described = JSON.parse(JSON.stringify(description()));
    expect(described).toMatchObject({ id: "orders", exposed: { in: { orders: "price.in" } } });
    expect(described.edges).toContainEqual({ from: "size.large", to: "review.in" });
    expect(described.nodes.find(({ name }: { name: string }) => name === "billing/charge")).toEqual({
      name: "billing/charge",
      config: {},
      id: "charge",
      version: "1.0.0",
      kind: "transform",
      doc: { intent: "Charges an order, once for each request_id.", owner: "payments" },
      in: { in: { schema: "Priced@1", buffer: 100 } },
      out: { charged: { schema: "Receipt@1" } },
      effects: { time: { allow: [] } },
      contract: CONTRACT,
      capture: { maxBytes: 256, redact: ["card"] },
      reply: true,
      concurrency: 8,
    });
  });
});

describe("a network from an object", () => {
  it("is equal to one from files, with functions instead of references", () => {
    const { model } = definePipeline(SHOP);
    expect(model.nodes.get("charge")?.contract.effectShell).toBe(CHARGE.contract.effect_shell);
    expect(model.nodes.get("charge")?.contract.idempotency).toEqual({ fields: ["request_id"] });
  });

  it("may use networks that are objects, and one of them twice", () => {
    const { model } = definePipeline({
      network: { id: "two", version: "1.0.0" },
      nodes: { first: { use: SHOP }, second: { use: SHOP } },
      edges: [{ from: "first.charged", to: "second.orders" }],
      expose: { in: { orders: "first.orders" }, out: { charged: "second.charged" } },
    });
    expect([...model.nodes.keys()]).toEqual(["first/charge", "second/charge"]);
  });

  it("is flat, and drawn as nested boxes, at any depth", () => {
    const around = (id: string, use: NetworkManifest): NetworkManifest => ({
      network: { id, version: "1.0.0" },
      nodes: { [id]: { use } },
      expose: { in: { orders: `${id}.orders` }, out: { charged: `${id}.charged` } },
    });
    const { model, graph } = definePipeline(around("outer", around("inner", SHOP)));
    expect([...model.nodes.keys()]).toEqual(["outer/inner/charge"]);
    expect(model.exposed.in.get("orders")).toEqual({ node: "outer/inner/charge", port: "in" });
    expect(graph()).toContain('subgraph gn1_1["outer"]\n    subgraph gn1_2["inner"]\n      n1["charge');
  });

  it("takes a node's concurrency from the outermost network that sets it", () => {
    const shop = { ...SHOP, deploy: { concurrency: { charge: 3 } } };
    const outer = (deploy?: NetworkManifest["deploy"]): NetworkManifest => ({
      network: { id: "outer", version: "1.0.0" },
      nodes: { shop: { use: shop } },
      expose: { in: { orders: "shop.orders" }, out: { charged: "shop.charged" } },
      ...(deploy && { deploy }),
    });
    const concurrency = (manifest: NetworkManifest) =>
      [...definePipeline(manifest).model.nodes.values()].map((node) => node.concurrency);
    expect(concurrency(SHOP)).toEqual([1]);
    expect(concurrency(outer())).toEqual([3]);
    expect(concurrency(outer({ concurrency: { "shop/charge": 7 } }))).toEqual([7]);
  });

  it("reports all problems at once, with their paths in the object", () => {
    const wrong = { ...CHARGE, node: { ...CHARGE.node, kind: "sinc" }, batsh: {} };
    expect(
      problemsOf({ ...SHOP, nodes: { charge: { use: wrong } }, supervision: { restarts: "3" } }),
    ).toEqual([
      'manifest supervision.restarts: supervision.restarts is "3"; write a whole number from 0',
      "manifest.nodes.charge.use batsh: batsh is unknown; write batch, or remove it",
      'manifest.nodes.charge.use node.kind: node.kind is "sinc"; write "sink"',
    ]);
  });

  it.each([
    ["nothing", undefined, "manifest : undefined is not a manifest; write an object"],
    ["a list", [], "manifest : a list is not a manifest; write an object"],
    [
      "text where code should be",
      { ...SHOP, schemas: { "Order@1": "./schemas.js#order" } },
      'manifest schemas.Order@1: "./schemas.js#order" is a reference; write the function or schema itself',
    ],
  ])("cannot be %s", (_, manifest, said) => {
    expect(problemsOf(manifest)).toEqual([said]);
  });

  it("has one schema for a name in all networks that it uses", () => {
    const other = { ...SHOP, schemas: { "Order@1": () => true } };
    const both = (first: NetworkManifest, second: NetworkManifest) => ({
      network: { id: "both", version: "1.0.0" },
      nodes: { first: { use: first }, second: { use: second } },
      edges: [{ from: "first.charged", to: "second.orders" }],
      expose: { in: { orders: "first.orders" }, out: { charged: "second.charged" } },
    });
    expect(problemsOf(both(SHOP, SHOP))).toEqual([]);
    expect(problemsOf(both(SHOP, other))).toEqual([
      'manifest nodes.second.use: "Order@1" is a different schema in the network that is used; make both name the same code, or give one of them another version',
    ]);
  });

  it("cannot use itself", () => {
    const circle: Record<string, unknown> = { ...SHOP };
    circle.nodes = { again: { use: circle } };
    expect(problemsOf({ ...circle, expose: {} })).toContain(
      "manifest.nodes.again.use nodes.again.use: the network uses itself; remove this use",
    );
  });

  it("ignores names from the prototype of an object", () => {
    expect(problemsOf({ ...SHOP, edges: [{ from: "toString.out", to: "charge.in" }] })).toEqual([
      'manifest edges[0].from: there is no node "toString"; write one of charge, or add toString under [nodes]',
    ]);
  });
});

describe("a schema", () => {
  const checkOf = (schema: unknown) => {
    const { model } = definePipeline({ ...SHOP, schemas: { "Order@1": schema } });
    return model.nodes.get("charge")?.in.get("in")?.schema?.check as (payload: unknown) => unknown;
  };

  it("that is a function refuses by throwing or false, accepts by true or undefined, and replaces the payload otherwise", () => {
    expect(checkOf(() => true)(1)).toBe(1);
    expect(checkOf(() => undefined)(1)).toBe(1);
    expect(checkOf((payload: number) => payload + 1)(1)).toBe(2);
    expect(() => checkOf(() => false)(1)).toThrow("the payload is not a valid Order@1");
    expect(() =>
      checkOf(() => {
        throw new Error("too small");
      })(1),
    ).toThrow("too small");
  });

  it("that is a function may be asynchronous", async () => {
    expect(await checkOf(async () => true)(1)).toBe(1);
    await expect(checkOf(async () => false)(1)).rejects.toThrow("the payload is not a valid Order@1");
  });

  it("of the Standard Schema interface may be asynchronous, and its issues are reported with their paths", async () => {
    const standard = (validate: (value: unknown) => unknown) => ({
      "~standard": { version: 1, vendor: "test", validate },
    });
    expect(checkOf(standard((value) => ({ value: [value] })))(1)).toEqual([1]);
    expect(await checkOf(standard(async (value) => ({ value: [value] })))(1)).toEqual([1]);
    const issues = [{ message: "is missing", path: ["card", { key: "number" }] }, { message: "is odd" }];
    expect(() => checkOf(standard(() => ({ issues })))(1)).toThrow(
      "the payload is not a valid Order@1: card.number: is missing; is odd",
    );
  });
});

describe("a definition", () => {
  it("starts the network on a guard, which runs a key once", async () => {
    const guard = createGuard({ store: memoryStore() });
    const left: unknown[] = [];
    const pipeline = await definePipeline(SHOP).start(guard, {
      on: { charged: (order) => left.push(order) },
    });
    await pipeline.push("orders", { request_id: "r-1" });
    await pipeline.push("orders", { request_id: "r-1" });
    expect(left).toEqual([{ request_id: "r-1" }]);
    await pipeline.close();
    await guard.close();
  });

  it("does not start with bad options", async () => {
    const guard = createGuard({ store: memoryStore() });
    await expect(definePipeline(SHOP).start(guard, { on: { paid: () => {} } })).rejects.toThrow("on.paid");
    await guard.close();
  });
});

describe("the [config] of a node", () => {
  const tuned = (config?: object) => ({
    ...SHOP,
    nodes: { charge: { use: { ...CHARGE, config: { currency: "USD", limits: [1, 2] } }, config } },
  });
  const configOf = (manifest: unknown) =>
    definePipeline(manifest as NetworkManifest).model.nodes.get("charge")?.config;

  it("has defaults, which a network overrides for one use", () => {
    expect(configOf(tuned())).toEqual({ currency: "USD", limits: [1, 2] });
    expect(configOf(tuned({ currency: "EUR" }))).toEqual({ currency: "EUR", limits: [1, 2] });
  });

  it("is shared by all messages, so code cannot change it", () => {
    const config = configOf(tuned({ limits: [3] })) as { limits: number[] };
    expect(() => config.limits.push(4)).toThrow(TypeError);
    expect(Object.isFrozen(config)).toBe(true);
  });

  it("reaches the core and the shell", async () => {
    const seen: unknown[] = [];
    const use: NodeManifest = {
      ...CHARGE,
      config: { currency: "USD" },
      contract: {
        pure_core: (order: object, { config }) => {
          seen.push(config.currency);
          return order;
        },
        effect_shell: (order: object, { config, emit }) => {
          seen.push(config.currency);
          return emit("charged", order);
        },
      },
    };
    const guard = createGuard({ store: memoryStore() });
    const manifest = { ...SHOP, nodes: { charge: { use, config: { currency: "EUR" } } } };
    const pipeline = await definePipeline(manifest).start(guard);
    await pipeline.push("orders", { request_id: "r-1" });
    expect(seen).toEqual(["EUR", "EUR"]);
    await pipeline.close();
    await guard.close();
  });

  it("is limited in size", () => {
    const use = { ...CHARGE, config: { table: "x".repeat(20_000) } };
    expect(problemsOf({ ...SHOP, nodes: { charge: { use } } })).toEqual([
      "manifest.nodes.charge.use config: config has more than 16384 characters; keep data in a file or a database",
    ]);
  });
});

describe("words of Bloccs", () => {
  const inNode = (table: string, value: unknown) => ({
    ...SHOP,
    nodes: { charge: { use: { ...CHARGE, [table]: value } } },
  });
  const inNetwork = (table: string, value: unknown) => ({ ...SHOP, [table]: value });
  const { contract } = CHARGE;
  it.each([
    ["timeout_ms", inNode("contract", { ...contract, timeout_ms: 5 }), 'write timeout = "5s"'],
    ["base_ms", inNode("contract", { ...contract, retry: { max: 1, base_ms: 5 } }), 'write base = "100ms"'],
    [
      "max_attempts",
      inNode("contract", { ...contract, retry: { max: 1, max_attempts: 5 } }),
      "write max, which counts retries: 3 is up to four tries",
    ],
    [
      "idempotency_ttl_ms",
      inNode("contract", { ...contract, idempotency: { key: "id", idempotency_ttl_ms: 5 } }),
      'write retention = "1h"',
    ],
    ["batch.timeout_ms", inNode("batch", { size: 2, within: "1s", timeout_ms: 5 }), 'write within = "1s"'],
    ["join.on", inNode("join", { by: "id", within: "1s", on: "id" }), "write by"],
    ["join.deadletter", inNode("join", { by: "id", within: "1s", deadletter: "d" }), "write dead_letter"],
    ["rate.allowed", inNode("rate", { limit: 1, per: "1s", allowed: 1 }), "write limit"],
    ["rate.interval_ms", inNode("rate", { limit: 1, per: "1s", interval_ms: 1 }), 'write per = "1s"'],
    ["delay.ms", inNode("delay", { by: "1s", ms: 5 }), 'write by = "5s"'],
    [
      "observability",
      inNode("observability", {}),
      "write [capture] for payloads; events are always reported",
    ],
    ["lint.exceptions", inNode("lint", { allow: ["key-missing"], exceptions: [] }), "write allow"],
    [
      "network.runtime",
      inNetwork("network", { ...SHOP.network, runtime: "beam" }),
      "leave it out: a network runs in the process that starts it",
    ],
    ["deploy.placement", inNetwork("deploy", { placement: "default" }), "leave it out: a network runs"],
    ["max_restarts", inNetwork("supervision", { max_restarts: 3 }), "write restarts"],
    ["max_seconds", inNetwork("supervision", { max_seconds: 3 }), 'write within = "5s"'],
  ])("%s gets the word to write instead", (_, manifest, fix) => {
    expect(problemsOf(manifest).join("\n")).toContain(fix);
  });
});
