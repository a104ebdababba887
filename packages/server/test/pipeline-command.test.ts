/** `nevertwice pipeline` as a shell runs it, on the build that `npm test` made before. */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { ended, run, start } from "./cli-process.ts";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const ORDERS = path("../../../examples/pipeline/orders.toml");
const BAD = path("../../nevertwice/test/pipeline/bad-manifests/");
const SLOW = path("./slow/network.toml");

const ORDER = JSON.stringify({ request_id: "r-1", customer: "ada", items: [{ price: 5, count: 2 }] });

describe.concurrent("nevertwice", { timeout: 60_000 }, () => {
  it("lists its commands, and refuses one that there is not with code 2", async () => {
    const help = await run(["--help"]);
    expect(help.code).toBe(0);
    expect(help.out.join("\n")).toContain("pipeline    checks, draws and runs networks");
    const unknown = await run(["pipelin"]);
    expect(unknown).toMatchObject({ code: 2, out: [] });
    expect(unknown.err[0]).toBe('nevertwice: there is no command "pipelin".');
    expect((await run([])).code).toBe(2);
  });

  it.each([
    ["no action", [], "validate, graph or run?"],
    ["an action that there is not", ["validte", ORDERS], 'there is no "validte".'],
    ["no file", ["validate"], "which FILE?"],
    ["two files", ["graph", "a.toml", "b.toml"], "one FILE, not also b.toml."],
    ["an option that there is not", ["run", ORDERS, "--bogus"], "Unknown option '--bogus'"],
    ["no tries", ["run", ORDERS, "--tries", "0"], "--tries is a whole number from 1."],
    [
      "a port that there is not",
      ["run", ORDERS, "--in", "order"],
      'there is no in-port "order"; there is orders.',
    ],
    ["no port of several", ["run", SLOW], "there are several in-ports; write --in left or --in right."],
  ])("takes %s for wrong usage: code 2, the reason, and the usage", async (_, args, reason) => {
    const { code, out, err } = await run(["pipeline", ...args]);
    expect({ code, out }).toEqual({ code: 2, out: [] });
    expect(err[0]).toContain(`nevertwice pipeline: ${reason}`);
    expect(err.join("\n")).toContain("nevertwice pipeline validate FILE");
  });
});

describe.concurrent("nevertwice pipeline validate", { timeout: 60_000 }, () => {
  it("says that nothing is wrong, for people and for programs", async () => {
    const { code, out } = await run(["pipeline", "validate", ORDERS]);
    expect(code).toBe(0);
    expect(out).toEqual([`${ORDERS}: orders 1.0.0, 4 nodes, 3 edges; nothing is wrong`]);
    const json = await run(["pipeline", "validate", "--json", ORDERS]);
    expect(JSON.parse(json.out.join(""))).toMatchObject({ valid: true, network: { id: "orders" } });
  });

  it("says what is wrong with file, line and fix, all of it, with code 1", async () => {
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

  it("says which file there is not", async () => {
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
  it("charges a line once: not again in the same run, nor in the next on the same store", async () => {
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

  it("says what became of each line, and ends with code 1 if one was not acknowledged", async () => {
    const lines = [
      "no json",
      "",
      '{ "request_id": "r-2", "items": 7 }',
      '{ "request_id": "r-3", "items": [] }',
    ];
    const { code, out } = await run(["pipeline", "run", ORDERS, "--store", "memory:"], lines.join("\n"));
    expect(code).toBe(1);
    expect([...out].sort()).toEqual([
      expect.stringContaining("line 1: this is no JSON"),
      "line 3: reject, price: schema-mismatch (this is no Order@1)",
      expect.stringContaining("line 4: reject, billing/charge: key-missing"),
    ]);
  });

  it("finishes what is under way on SIGTERM, and begins nothing", async () => {
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

  it("says what is wrong with a store that it cannot open", async () => {
    const { code, err } = await run(["pipeline", "run", ORDERS, "--store", "nowhere:"], ORDER);
    expect(code).toBe(2);
    expect(err.join("\n")).toContain("options-invalid");
  });
});
