import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { createGuard } from "../../../src/functions/guard.ts";
import {
  definePipeline,
  measureCoverage,
  type NetworkManifest,
  recordCoverage,
} from "../../../src/pipeline/index.ts";
import { memoryStore } from "../../../src/stores/memory.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "nevertwice-coverage-"));
const FILE = join(FOLDER, "runs.jsonl");

beforeEach(() => rmSync(FILE, { force: true }));
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

const SHOP: NetworkManifest = {
  network: { id: "shop", version: "1.0.0" },
  schemas: { "Order@1": (order: { id?: unknown }) => typeof order.id === "string" },
  nodes: {
    size: {
      use: {
        node: { id: "size", version: "1.0.0", kind: "router" },
        ports: { in: { in: { schema: "Order@1" } }, out: { small: {}, large: {} } },
        contract: {
          pure_core: (order: object) => order,
          effect_shell: (order: { large?: boolean }, { emit }) =>
            emit(order.large ? "large" : "small", order),
        },
      },
    },
    charge: {
      use: {
        node: { id: "charge", version: "1.0.0", kind: "sink" },
        ports: { in: { in: {} } },
        effects: { time: true, db: { allow: ["main"], tables: ["charges:insert", "charges:select"] } },
        contract: {
          pure_core: (order: object) => order,
          effect_shell: (order: { fails?: boolean }, { effects }) => {
            effects.db("main", "charges:insert");
            if (order.fails) throw Object.assign(new Error("busy"), { tag: "bank-busy" });
          },
          timeout: "5s",
          retry: { max: 1, base: "1ms", on: ["bank-busy"] },
          idempotency: { key: "id" },
        },
      },
    },
  },
  edges: [{ from: "size.small", to: "charge.in" }],
  expose: { in: { orders: "size.in" }, out: { large: "size.large" } },
};

async function coverageAfter(...payloads: readonly object[]) {
  const guard = createGuard({ store: memoryStore() });
  const definition = definePipeline(SHOP);
  const pipeline = await definition.start(guard, { databases: { main: {} }, onEvent: recordCoverage(FILE) });
  for (const payload of payloads) await pipeline.push("orders", payload);
  await pipeline.close();
  await guard.close();
  const facts = readFileSync(FILE, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  return measureCoverage(definition.model, facts);
}

describe("coverage", () => {
  it("names every node, route, effect, kind of error and duplicate that did not occur", async () => {
    expect(await coverageAfter({ id: "o-1", large: true })).toEqual([
      { name: "nodes", total: 2, covered: 1, missing: ["charge"] },
      { name: "routes", total: 3, covered: 2, missing: ["size.small -> charge.in"] },
      {
        name: "effects",
        total: 4,
        covered: 0,
        missing: ["charge db main", "charge db charges:insert", "charge db charges:select", "charge time"],
      },
      {
        name: "errors",
        total: 4,
        covered: 0,
        missing: ["size schema-mismatch", "charge key-missing", "charge timeout", "charge bank-busy"],
      },
      { name: "duplicates", total: 1, covered: 0, missing: ["charge"] },
    ]);
  });

  it("adds up the runs that share a file", async () => {
    await coverageAfter({ id: "o-1", large: true }, { id: 7 });
    const groups = await coverageAfter({ id: "o-1" }, { id: "o-1" }, { id: "o-2", fails: true });
    expect(groups.map(({ name, missing }) => [name, missing])).toEqual([
      ["nodes", []],
      ["routes", []],
      ["effects", ["charge db charges:select", "charge time"]],
      ["errors", ["charge key-missing", "charge timeout"]],
      ["duplicates", []],
    ]);
  });

  it("records each fact once, and neither payloads nor keys", async () => {
    await coverageAfter(...Array.from({ length: 50 }, (_, index) => ({ id: `secret-${index}` })));
    const text = readFileSync(FILE, "utf8");
    expect(text.split("\n").filter(Boolean)).toHaveLength(5);
    expect(text).not.toContain("secret");
  });

  it("fails at once if the file cannot be written", () => {
    expect(() => recordCoverage(join(FOLDER, "no-such-folder", "runs.jsonl"))).toThrow("ENOENT");
  });
});
