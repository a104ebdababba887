/** Tests `nevertwice pipeline` as a separate process, on the current build. */
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClaims } from "nevertwice/claims";
import { openStore } from "nevertwice/stores/open";
import { describe, expect, it } from "vitest";
import { ended, FOLDER, printed, run, start } from "./cli-process.ts";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const ORDERS = path("../../../examples/pipeline/orders.toml");
const BAD = path("../../nevertwice/test/pipeline/bad-manifests/");
const SLOW = path("./slow/network.toml");

const ORDER = JSON.stringify({ request_id: "r-1", customer: "ada", items: [{ price: 5, count: 2 }] });

describe.concurrent("nevertwice", { timeout: 60_000 }, () => {
  it("lists its actions, and refuses an unknown one with code 2", async () => {
    const help = await run(["--help"]);
    expect(help.code).toBe(0);
    expect(help.out.join("\n")).toContain("pipeline    validate, draw and run networks");
    const unknown = await run(["pipelin"]);
    expect(unknown).toMatchObject({ code: 2, out: [] });
    expect(unknown.err[0]).toBe('nevertwice: unknown command "pipelin". Did you mean "pipeline"?');
    expect((await run([])).code).toBe(2);
  });

  it.each([
    ["no action", [], "an action is missing: validate, graph or run."],
    ["an unknown action", ["validte", ORDERS], 'unknown action "validte".'],
    ["no file", ["validate"], "the argument FILE is missing."],
    ["two files", ["graph", "a.toml", "b.toml"], "one FILE is expected, but also got b.toml."],
    ["an unknown option", ["run", ORDERS, "--bogus"], "Unknown option '--bogus'"],
    ["no tries", ["run", ORDERS, "--tries", "0"], "--tries must be a whole number of at least 1."],
    ["an unknown port", ["run", ORDERS, "--in", "order"], 'unknown in-port "order"; the network has orders.'],
    [
      "no port of several",
      ["run", SLOW],
      "the network has several in-ports; choose one with --in left or --in right.",
    ],
  ])("reports %s as wrong usage: code 2, the reason, and the usage", async (_, args, reason) => {
    const { code, out, err } = await run(["pipeline", ...args]);
    expect({ code, out }).toEqual({ code: 2, out: [] });
    expect(err[0]).toContain(`nevertwice pipeline: ${reason}`);
    expect(err.join("\n")).toContain("nevertwice pipeline validate FILE");
  });
});

describe.concurrent("nevertwice pipeline validate", { timeout: 60_000 }, () => {
  it("reports a valid network, as text and as JSON", async () => {
    const { code, out } = await run(["pipeline", "validate", ORDERS]);
    expect(code).toBe(0);
    expect(out).toEqual([`${ORDERS}: orders 1.0.0, 4 nodes, 3 edges; valid`]);
    const json = await run(["pipeline", "validate", "--json", ORDERS]);
    expect(JSON.parse(json.out.join(""))).toMatchObject({ valid: true, network: { id: "orders" } });
  });

  it("reports all problems with file, line and fix, with code 1", async () => {
    const { code, out, err } = await run(["pipeline", "validate", `${BAD}many.toml`]);
    expect({ code, out }).toEqual({ code: 1, out: [] });
    expect(err).toHaveLength(4);
    expect(err[0]).toBe(`${BAD}kind-unknown.node.toml:4: node.kind is "tranform"; write "transform".`);
    const json = await run(["pipeline", "validate", "--json", `${BAD}circle.toml`]);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out.join(""))).toMatchObject({
      valid: false,
      problems: [{ file: `${BAD}circle.toml`, line: 22, at: "edges[1].to" }],
    });
  });

  it("names a missing file", async () => {
    const { code, err } = await run(["pipeline", "validate", "no-such.toml"]);
    expect(code).toBe(1);
    expect(err).toEqual(["no-such.toml: there is no such file; correct the path."]);
  });
});

describe.concurrent("nevertwice pipeline graph", { timeout: 60_000 }, () => {
  it("prints a Mermaid flowchart", async () => {
    const { code, out } = await run(["pipeline", "graph", ORDERS]);
    expect(code).toBe(0);
    expect(out[0]).toBe("flowchart LR");
    expect(out).toContain('  n1 -->|"priced → in"| n2');
  });
});

describe.concurrent("nevertwice pipeline run", { timeout: 60_000 }, () => {
  it("handles a line once, in one run and across runs on the same store", async () => {
    const args = ["pipeline", "run", ORDERS, "--store", "sqlite:./orders.db", "--json"];
    const first = await run(args, `${ORDER}\n${ORDER}\n`);
    expect(first.code, first.err.join("\n")).toBe(0);
    const told = first.out.map((line) => JSON.parse(line));
    expect(told.filter(({ out }) => out === "receipts")).toHaveLength(1);
    expect(
      told
        .filter(({ verdict }) => verdict === "acknowledge")
        .map(({ line }) => line)
        .sort(),
    ).toEqual([1, 2]);
    const second = await run(args, ORDER);
    expect(second.code).toBe(0);
    expect(second.out.map((line) => JSON.parse(line))).toMatchObject([{ line: 1, verdict: "acknowledge" }]);
    const other = await run([...args, "--namespace", "other"], ORDER);
    expect(other.out.map((line) => JSON.parse(line)).filter(({ out }) => out === "receipts")).toHaveLength(1);
  });

  it("prints the result of each line, and exits with code 1 if one was not acknowledged", async () => {
    const lines = [
      "no json",
      "",
      '{ "request_id": "r-2", "items": 7 }',
      '{ "request_id": "r-3", "items": [] }',
    ];
    const { code, out } = await run(["pipeline", "run", ORDERS, "--store", "memory:"], lines.join("\n"));
    expect(code).toBe(1);
    expect([...out].sort()).toEqual([
      expect.stringContaining("line 1: not valid JSON"),
      "line 3: reject, price: schema-mismatch (the payload is not a valid Order@1)",
      expect.stringContaining("line 4: reject, billing/charge: key-missing"),
    ]);
  });

  describe("with a key that another process holds", () => {
    /** A claim that nobody renews, as a process that was killed leaves it. */
    async function claimed(file: string, leaseMs: number) {
      const store = await openStore(`sqlite:${join(FOLDER, file)}`);
      const claims = createClaims({ store, leaseMs });
      const claim = await claims.claim({ operation: "slow/work", scope: "slow|work", key: "a" });
      if (claim.status !== "new") throw new Error(claim.status);
      return { release: () => claims.abandon({ ...claim, as: "released" }), close: () => store.close() };
    }
    const args = (file: string) => ["pipeline", "run", SLOW, "--in", "left", "--store", `sqlite:${file}`];

    it("waits during the lease, says so once, and continues as soon as the key is free", async () => {
      const { release, close } = await claimed("held.db", 600_000);
      const child = start(...args("./held.db"));
      const ending = ended(child, '{ "id": "a", "ms": 0 }\n{ "id": "a", "ms": 0 }\n');
      await printed(child, "another attempt holds");
      await release();
      const { code, out, err } = await ending;
      expect(out.filter((line) => line.startsWith("line"))).toHaveLength(2);
      expect(err.filter((line) => line.includes("another attempt holds"))).toHaveLength(1);
      expect(err[0]).toMatch(/^line [12] waits for a key that another attempt holds; .* ends in \d+ s/);
      expect(code, err.join("\n")).toBe(0);
      await close();
    });

    it("takes the key over when the lease has ended", async () => {
      const { close } = await claimed("lapsing.db", 4_000);
      const { code, out } = await run(args("./lapsing.db"), '{ "id": "a", "ms": 0 }\n');
      expect({ code, out }).toEqual({
        code: 0,
        out: ['done: {"id":"a"} (may have been sent before)', "line 1: acknowledge"],
      });
      await close();
    });
  });

  it("finishes running messages on SIGTERM and starts no new ones", async () => {
    const child = start("pipeline", "run", SLOW, "--in", "left", "--store", "memory:");
    const ending = ended(child);
    child.stdin.write('{ "id": "a", "ms": 500 }\n');
    await once(child.stderr, "data");
    child.kill("SIGTERM");
    const { code, out, err } = await ending;
    expect(err).toEqual(["begun a"]);
    expect(out).toEqual(['done: {"id":"a"}', "line 1: acknowledge"]);
    expect(code).toBe(0);
  });

  it("runs a network that has only sources, without input, until they end", async () => {
    const { code, out } = await ended(
      start("pipeline", "run", path("./slow/source.toml"), "--store", "memory:"),
    );
    expect({ code, out }).toEqual({ code: 0, out: ["numbers: 1", "numbers: 2", "numbers: 3"] });
  });

  it("reports why a store cannot be opened", async () => {
    const { code, err } = await run(["pipeline", "run", ORDERS, "--store", "nowhere:"], ORDER);
    expect(code).toBe(2);
    expect(err.join("\n")).toContain("options-invalid");
  });
});
