/** Tests `nevertwice pipeline` as a separate process, on the current build. */
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
    expect(help.out.join("\n")).toContain("pipeline    write, validate, lint, draw and run networks");
    const unknown = await run(["pipelin"]);
    expect(unknown).toMatchObject({ code: 2, out: [] });
    expect(unknown.err[0]).toBe('nevertwice: unknown command "pipelin". Did you mean "pipeline"?');
    expect((await run([])).code).toBe(2);
  });

  it.each([
    ["no action", [], "an action is missing: new, validate, lint, graph, run or coverage."],
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
  ])("reports %s as wrong usage: code 2 and the reason, in one line", async (_, args, reason) => {
    const { code, out, err } = await run(["pipeline", ...args]);
    expect({ code, out }).toEqual({ code: 2, out: [] });
    expect(err).toEqual([expect.stringContaining(`nevertwice pipeline: ${reason}`)]);
  });
});

describe.concurrent("nevertwice pipeline validate", { timeout: 60_000 }, () => {
  it("reports a valid network, as text and as JSON", async () => {
    const { code, out } = await run(["pipeline", "validate", ORDERS]);
    expect(code).toBe(0);
    expect(out).toEqual([`${ORDERS}: orders 1.0.0, 4 nodes, 3 edges; valid`]);
    const json = await run(["pipeline", "validate", "--json", ORDERS]);
    expect(JSON.parse(json.out.join(""))).toMatchObject({
      command: "pipeline validate",
      ok: true,
      data: { valid: true, network: { id: "orders" } },
    });
  });

  it("reports all problems with file, line and fix, with code 1", async () => {
    const { code, out, err } = await run(["pipeline", "validate", `${BAD}many.toml`]);
    expect({ code, out }).toEqual({ code: 1, out: [] });
    expect(err).toHaveLength(5);
    expect(err.at(-1)).toBe(`${BAD}many.toml: not valid, 4 problems`);
    expect(err[0]).toBe(`${BAD}kind-unknown.node.toml:4: node.kind is "tranform"; write "transform".`);
    const json = await run(["pipeline", "validate", "--json", `${BAD}circle.toml`]);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out.join(""))).toMatchObject({
      ok: false,
      exit: 1,
      data: { valid: false, problems: [{ file: `${BAD}circle.toml`, line: 22, at: "edges[1].to" }] },
    });
  });

  it("names a missing file", async () => {
    const { code, err } = await run(["pipeline", "validate", "no-such.toml"]);
    expect(code).toBe(1);
    expect(err).toEqual([
      "no-such.toml: there is no such file; correct the path.",
      "no-such.toml: not valid, 1 problem",
    ]);
  });
});

describe.concurrent("nevertwice pipeline new", { timeout: 60_000 }, () => {
  it("writes a network that passes lint and handles its messages", async () => {
    const made = await run(["pipeline", "new", "network", "parcels"]);
    expect(made).toMatchObject({ code: 0, err: [] });
    expect(made.out).toContain("wrote parcels/parcels.toml");
    const lint = await run(["pipeline", "lint", "parcels/parcels.toml"]);
    expect(lint).toMatchObject({ code: 0, out: ["parcels/parcels.toml: 1 node, no findings"] });
    const ran = await run(
      ["pipeline", "run", "parcels/parcels.toml", "--store", "memory:"],
      readFileSync(join(FOLDER, "parcels/messages.jsonl"), "utf8"),
    );
    expect(ran.code, ran.err.join("\n")).toBe(0);
    expect(ran.out).toContain('handled: {"id":"m-1","text":"hello"}');
  });

  it.each(["source", "transform", "router", "sink"])("writes a %s that passes lint", async (kind) => {
    const made = await run(["pipeline", "new", "node", `a-${kind}`, "--kind", kind, "--json"]);
    expect(JSON.parse(made.out.join(""))).toMatchObject({
      command: "pipeline new",
      data: { files: [`a-${kind}.node.toml`, `a-${kind}.mjs`] },
    });
    expect((await run(["pipeline", "lint", `a-${kind}.node.toml`])).code).toBe(0);
  });

  it("writes over no file", async () => {
    await run(["pipeline", "new", "node", "kept", "--folder", "mine"]);
    rmSync(join(FOLDER, "mine/kept.node.toml"));
    writeFileSync(join(FOLDER, "mine/kept.mjs"), "mine");
    const again = await run(["pipeline", "new", "node", "kept", "--folder", "mine"]);
    expect(again.code).toBe(1);
    expect(again.err).toEqual(["nevertwice pipeline: mine/kept.mjs exists already; nothing was written."]);
    expect(readFileSync(join(FOLDER, "mine/kept.mjs"), "utf8")).toBe("mine");
    expect(existsSync(join(FOLDER, "mine/kept.node.toml"))).toBe(false);
  });

  it.each([
    ["a path", ["network", "../up"], '"../up" is not a name'],
    ["another thing", ["edge", "a"], 'unknown argument "edge".'],
    ["a network with a kind", ["network", "a", "--kind", "sink"], "only a node has a --kind."],
  ])("refuses %s with code 2", async (_, args, reason) => {
    const { code, err } = await run(["pipeline", "new", ...args]);
    expect({ code, err }).toEqual({ code: 2, err: [expect.stringContaining(reason)] });
  });
});

describe.concurrent("nevertwice pipeline lint", { timeout: 60_000 }, () => {
  it("prints one line for each finding with file, line, rule and fix, and fails", async () => {
    await run(["pipeline", "new", "node", "dirty", "--folder", "dirty"]);
    const code = readFileSync(join(FOLDER, "dirty/dirty.mjs"), "utf8");
    const changed = code.replace("return payload;", "return { ...payload, at: Date.now() };");
    writeFileSync(join(FOLDER, "dirty/dirty.mjs"), changed);
    const { code: exit, out } = await run(["pipeline", "lint", "dirty/dirty.node.toml"]);
    expect({ exit, out }).toEqual({
      exit: 1,
      out: [
        "dirty/dirty.mjs:3: impure-core: the core of dirty uses Date.now(), so it may decide otherwise when a try is repeated; move it to the effect_shell, or take the value from the payload.",
        "dirty/dirty.node.toml: 1 finding",
      ],
    });
    const json = await run(["pipeline", "lint", "dirty/dirty.node.toml", "--json"]);
    expect(JSON.parse(json.out.join(""))).toMatchObject({
      ok: false,
      exit: 1,
      data: {
        nodes: 1,
        findings: [{ rule: "impure-core", file: "dirty/dirty.mjs", line: 3, node: "dirty" }],
      },
    });
  });

  it("finds nothing in the example", async () => {
    const { code, out } = await run(["pipeline", "lint", ORDERS]);
    expect({ code, out }).toEqual({ code: 0, out: [`${ORDERS}: 4 nodes, no findings`] });
  });
});

describe.concurrent("nevertwice pipeline coverage", { timeout: 60_000 }, () => {
  it("says what recorded runs exercised, and fails below --at-least", async () => {
    const record = ["pipeline", "run", ORDERS, "--store", "memory:", "--record", "orders.jsonl"];
    expect((await run(record, `${ORDER}\n${ORDER}\n`)).code).toBe(0);
    const args = ["pipeline", "coverage", ORDERS, "--recorded", "orders.jsonl"];
    const { code, out } = await run([...args, "--at-least", "90"]);
    expect(code).toBe(1);
    expect(out).toEqual([
      "nodes      3 of 4, not covered: review",
      "routes     4 of 5, not covered: size.large -> review.in",
      "effects    1 of 1",
      expect.stringMatching(/^errors {5}0 of 8, not covered: price schema-mismatch, /),
      "duplicates 1 of 2, not covered: review",
      "orders: 9 of 20 covered, 45 %, below --at-least 90",
    ]);
    const json = await run([...args, "--json"]);
    expect(JSON.parse(json.out.join(""))).toMatchObject({
      ok: true,
      data: { network: "orders", covered: 9, total: 20, percent: 45 },
    });
  });

  it("explains a missing file, another file and another network", async () => {
    writeFileSync(join(FOLDER, "other.jsonl"), '{"network":"other","fact":"ran","node":"a"}\n');
    writeFileSync(join(FOLDER, "bad.jsonl"), "\nhello\n");
    for (const [file, reason] of [
      ["none.jsonl", "there is no file none.jsonl; record one with pipeline run --record none.jsonl"],
      ["other.jsonl", "other.jsonl has no run of the network orders."],
      ["bad.jsonl", "bad.jsonl:2: this is not a line that pipeline run --record"],
    ] as const) {
      const { code, err } = await run(["pipeline", "coverage", ORDERS, "--recorded", file]);
      expect({ code, err }).toEqual({ code: 1, err: [expect.stringContaining(reason)] });
    }
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
    expect(second.out.map((line) => JSON.parse(line))).toMatchObject([
      { event: "line", line: 1, verdict: "acknowledge" },
      { command: "pipeline run", ok: true, data: { acknowledged: 1, alreadyDone: 0, failed: 0 } },
    ]);
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
    const args = ["pipeline", "run", ORDERS, "--store", "memory:"];
    const { code, out, err } = await run(args, lines.join("\n"));
    expect(code).toBe(1);
    expect(err).toEqual(["failed: 0 lines acknowledged, 0 already done, 3 not acknowledged"]);
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
    expect(err).toEqual(["begun a", "done: 1 lines acknowledged, 0 already done, 0 not acknowledged"]);
    expect(out).toEqual(['done: {"id":"a"}', "line 1: acknowledge"]);
    expect(code).toBe(0);
  });

  it("serves the dashboard with --listen, also after the input, until a signal", async () => {
    const child = start(
      ...["pipeline", "run", ORDERS, "--store", "memory:", "--listen", "127.0.0.1:0", "--json"],
    );
    const ending = ended(child, `${ORDER}\n`);
    const text = await printed(child, '"event":"line"');
    const { url } = JSON.parse(text.split("\n").find((line) => line.includes('"listening"')) ?? "{}");
    const live = (await (await fetch(`${url}/v1/live`)).json()) as { pipelines: { id: string }[] };
    expect(live.pipelines).toMatchObject([{ id: "orders", status: "running", underWay: 0 }]);
    const { journeys } = (await (await fetch(`${url}/v1/pipelines/orders/journeys`)).json()) as {
      journeys: object[];
    };
    expect(journeys).toMatchObject([{ ending: "acknowledge", nodes: ["price", "size", "billing/charge"] }]);
    child.kill("SIGTERM");
    const { code, out } = await ending;
    expect(JSON.parse(out.at(-1) ?? "{}")).toMatchObject({
      command: "pipeline run",
      data: { acknowledged: 1 },
    });
    expect(code).toBe(0);
  });

  it("serves no address that others can reach without an access token", async () => {
    const { code, err } = await run([
      "pipeline",
      "run",
      ORDERS,
      "--store",
      "memory:",
      "--listen",
      "0.0.0.0:0",
    ]);
    expect(code).toBe(2);
    expect(err.join("\n")).toContain("a loopback address, unless there is an access token");
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
