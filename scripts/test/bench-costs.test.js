/** Tests what the benchmark says about costs, warm-ups, revisions and its command line, on made-up numbers. */
import { describe, expect, it } from "vitest";
import { parseBenchArguments } from "../../bench/arguments.js";
import { medianCosts, percentiles } from "../../bench/costs.js";
import { loadingPage } from "../../bench/loading/document.js";
import { familyMicroseconds, parentOf } from "../../bench/processor-time.js";
import { describeCommit, revisionsText } from "../../bench/revisions.js";
import { agree, MAX_WARM_UPS, warmUp } from "../../bench/warm-up.js";

describe("costs", () => {
  it("are the medians of the runs, each number for itself", () => {
    expect(
      medianCosts([
        { client: 10, server: 5, blockedMs: 3, alone: { p50: 1, p99: 30 } },
        { client: 30, server: 1, blockedMs: 2, alone: { p50: 3, p99: 10 } },
        { client: 20, server: 3, blockedMs: 9, alone: { p50: 2, p99: 20 } },
      ]),
    ).toEqual({ client: 20, server: 3, blockedMs: 3, alone: { p50: 2, p99: 20 } });
  });

  it("lack what a run lacks", () => {
    const run = { client: 10, blockedMs: 3 };
    expect(medianCosts([run, { ...run, server: 4 }])).toEqual(run);
    expect(medianCosts([undefined])).toBeUndefined();
    expect(medianCosts([])).toBeUndefined();
  });

  it("of a call alone are the middle and the hundredth slowest, in microseconds", () => {
    const calls = Array.from({ length: 200 }, (_, i) => (199 - i) / 1_000);
    const { p50, p99 } = percentiles(calls);
    expect(p50).toBeCloseTo(100);
    expect(p99).toBeCloseTo(198);
    expect(() => percentiles([])).toThrow("nothing was measured");
  });

  it("of another process count the processor time of its family", ({ skip }) => {
    if (process.platform !== "linux") skip("only Linux has /proc");
    expect(familyMicroseconds(process.pid)).toBeGreaterThan(0);
    expect(parentOf(process.pid)).toBe(process.ppid);
  });
});

describe("a warm-up", () => {
  it("is repeated until two in a row cost the same", async () => {
    const costs = [120, 80, 60, 57, 10];
    expect(await warmUp(async () => costs.shift() ?? 0)).toBe(4);
    expect(costs).toEqual([10]);
  });

  it("ends when it never settles", async () => {
    const costs = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    expect(await warmUp(async () => costs.shift() ?? 0)).toBe(MAX_WARM_UPS);
    expect(costs).toEqual([256]);
  });

  it("agrees with another within a tenth, whichever is faster", () => {
    expect([agree(100, 90), agree(90, 100), agree(100, 89), agree(89, 100)]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

describe("the command line of the benchmark", () => {
  const suites = { all: ["memory", "redis", "http"], comparable: ["memory", "redis"] };
  const parse = (/** @type {readonly string[]} */ ...args) => parseBenchArguments(args, suites);

  it("takes all suites by default", () => {
    expect(parse()).toEqual({ names: suites.all, isQuick: false, compare: undefined });
  });

  it("takes the named suites, and flags anywhere", () => {
    expect(parse("redis", "--quick", "http")).toEqual({
      names: ["redis", "http"],
      isQuick: true,
      compare: undefined,
    });
  });

  it("compares the suites that can be compared with a revision", () => {
    expect(parse("--compare", "HEAD~1")).toEqual({
      names: suites.comparable,
      isQuick: false,
      compare: "HEAD~1",
    });
    expect(parse("--compare=v1", "memory").names).toEqual(["memory"]);
  });

  it.each([
    [["mongo"], "There is no suite mongo. The suites are memory, redis, http."],
    [["--compare", "HEAD", "http"], "http cannot compare revisions. The suites that can are memory, redis."],
    [["--compare="], "--compare needs a revision: a commit, a branch or a tag."],
    [["--compare"], "argument missing"],
    [["--fast"], "Unknown option '--fast'"],
  ])("refuses %j", (args, message) => {
    expect(() => parse(...args)).toThrow(message);
  });
});

describe("the page about loading", () => {
  it("compares the import with its target, and lists every entry with its size", () => {
    const row = (/** @type {string} */ name, /** @type {number} */ median) => ({
      name,
      milliseconds: { median, least: median - 1, most: median + 1 },
      minified: 60_000,
      compressed: 20_000,
    });
    const text = loadingPage([[row("nevertwice", 15), row("express", 30)]], {
      versionOf: () => "9.9.9",
      platform: "Commit 1a2b3c4. Node 20",
    });
    expect(text).toContain(
      "`nevertwice` takes 0.50x of the time of `express`. Target: at most 0.30x; missed by: nevertwice.",
    );
    expect(text.replaceAll(/ +/g, " ")).toContain("| express | 30.0 | 29.0 | 31.0 | 60,000 | 20,000 |");
    expect(text).toContain("Commit 1a2b3c4. Node 20.");
    expect(text).toContain("express 9.9.9");
  });
});

describe("a comparison of revisions", () => {
  it("is a ratio of operations and one of processor time, above 1 where this revision is better", () => {
    const speed = (/** @type {number} */ median) => ({ median, least: median - 1, most: median + 1 });
    const text = revisionsText("1a2b3c4", [
      {
        title: "replay",
        here: speed(200),
        there: speed(100),
        costsHere: { client: 10, server: 10, blockedMs: 0 },
        costsThere: { client: 25, server: 5, blockedMs: 0 },
      },
    ]);
    expect(text.replaceAll(/ +/g, " ").split("\n")).toEqual([
      "| per second | here | 1a2b3c4 | ratio | CPU here, µs | CPU 1a2b3c4, µs | ratio |",
      expect.stringMatching(/^\| -+ \|/),
      "| replay | 200 (199 to 201) | 100 (99 to 101) | 2.00x | 20.0 | 30.0 | 1.50x |",
    ]);
  });

  it("names the commit, and says if there are changes besides", () => {
    expect(describeCommit()).toMatch(/^[0-9a-f]{7,}( with uncommitted changes)?$/);
  });
});
