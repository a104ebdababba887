/** Tests the numbers and tables of the benchmark, on made-up results. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { hotSpotsText, page, resultsText } from "../../bench/document.js";
import { startProfiles } from "../../bench/inspect.js";
import { isInstalled } from "../../bench/installed.js";
import { makeOperations, retryOf } from "../../bench/payload.js";
import { costliest, waitingShare } from "../../bench/profile.js";
import {
  formatRatio,
  formatSummary,
  formatTable,
  median,
  ratioToBest,
  summarise,
} from "../../bench/report.js";
import { memory } from "../../bench/suites/memory.js";
import { redis } from "../../bench/suites/redis.js";
import { librariesOf, suites } from "../../bench/suites.js";

describe("the numbers of a benchmark", () => {
  it("has the middle run as its median, whatever the order", () => {
    expect(median([30, 10, 20])).toBe(20);
  });

  it("has the mean of the two middle runs as the median of an even number", () => {
    expect(median([40, 10, 20, 30])).toBe(25);
  });

  it("sorts by size, not by spelling", () => {
    expect(median([100, 9, 10])).toBe(10);
  });

  it("refuses to make a median out of nothing", () => {
    expect(() => median([])).toThrow("nothing was measured");
  });

  it("leaves the runs as they were", () => {
    const runs = [3, 1, 2];
    summarise(runs);
    expect(runs).toEqual([3, 1, 2]);
  });

  it("summarises runs as median and spread", () => {
    expect(summarise([300, 100, 200])).toEqual({ median: 200, least: 100, most: 300 });
  });

  it("compares with the best peer, wherever it stands", () => {
    const [slow, fast] = [summarise([50]), summarise([200])];
    expect(ratioToBest(summarise([100]), [slow, fast])).toBe(0.5);
    expect(ratioToBest(summarise([100]), [fast, slow])).toBe(0.5);
  });

  it("writes numbers that people can read", () => {
    expect(formatSummary({ median: 12_345.6, least: 999.4, most: 1_000_000 })).toBe(
      "12,346 (999 to 1,000,000)",
    );
    expect(formatRatio(2)).toBe("2.00x");
    expect(formatRatio(0.456)).toBe("0.46x");
  });

  it("lines its table up, names to the left and numbers to the right", () => {
    const table = formatTable(
      ["row", "ops"],
      [
        ["first call", "9"],
        ["replay", "12,345"],
      ],
    );
    expect(table.split("\n")).toEqual([
      "| row        |    ops |",
      "| ---------- | -----: |",
      "| first call |      9 |",
      "| replay     | 12,345 |",
    ]);
  });
});

describe("a profile", () => {
  const frame = (functionName = "", url = "", lineNumber = 0) => ({ functionName, url, lineNumber });
  const profile = {
    nodes: [
      { id: 1, callFrame: frame("claim", "file:///repo/dist/memory.js", 51) },
      { id: 2, callFrame: frame("(garbage collector)") },
      { id: 3, callFrame: frame("claim", "file:///repo/dist/memory.js", 51) },
      { id: 4, callFrame: frame("(idle)") },
      { id: 5, callFrame: frame("", "node:internal/timers", 9) },
      { id: 6, callFrame: frame("dispatch") },
      { id: 7, callFrame: frame("never sampled") },
    ],
    samples: [1, 2, 3, 4, 5, 6, 1],
    timeDeltas: [10, 30, 20, 1_000, 20, 500, 20],
  };

  it("adds up the self time of one function over all its callers, and leaves the overhead out", () => {
    expect(costliest(profile, { root: "/repo/", limit: 12 })).toEqual([
      { place: "claim (dist/memory.js:52)", share: 0.5 },
      { place: "(garbage collector)", share: 0.3 },
      { place: "(anonymous) (node:internal/timers:10)", share: 0.2 },
    ]);
  });

  it("knows how much of the time was spent waiting", () => {
    expect(waitingShare(profile)).toBe(1_000 / 1_600);
  });

  it("is taken of this thread and of its workers", async () => {
    const worker = new Worker(
      `const { parentPort } = require("node:worker_threads");
      function spin() {
        const until = Date.now() + 50;
        while (Date.now() < until);
        parentPort.postMessage("done");
      }
      parentPort.on("message", spin);
      parentPort.postMessage("ready");`,
      { eval: true },
    );
    await once(worker, "message");
    const stop = await startProfiles();
    worker.postMessage("spin");
    await once(worker, "message");
    const profiles = await stop();
    await worker.terminate();
    const names = profiles.map(({ nodes }) => nodes.map(({ callFrame }) => callFrame.functionName));
    expect(names).toHaveLength(2);
    expect(names[0]).not.toContain("spin");
    expect(names[1]).toContain("spin");
  });

  it("stops at the limit, without changing the shares", () => {
    const [first, ...rest] = costliest(profile, { root: "/repo/", limit: 1 });
    expect(first?.share).toBe(0.5);
    expect(rest).toEqual([]);
  });
});

describe("the page of results", () => {
  const summary = { median: 50_000, least: 40_000, most: 60_000 };
  const fast = {
    title: "replay, none",
    ours: summary,
    peers: [summary, summary],
    raw: undefined,
    ratio: 2,
    rawRatio: undefined,
    explanations: undefined,
  };
  const slow = {
    ...fast,
    title: "first call, none",
    ratio: 1,
    explanations: [
      { waiting: 0.5, hotSpots: [{ place: "claim (a.js:1)", share: 0.25 }] },
      { waiting: 0, hotSpots: [{ place: "flush (b.js:1)", share: 1 }] },
    ],
  };
  const results = { rows: [fast, slow], bytesPerKey: [1_500, 1_600.4, 1_700] };
  const measurement = { versionOf: () => "9.9.9", platform: "Node 20" };

  /** The results of a suite with three peers, one of which was not measured, and a raw loop. */
  const besideRaw = {
    rows: [{ ...slow, peers: [summary, summary, undefined], raw: summary, rawRatio: 0.55 }],
    bytesPerKey: [1_500, 1_600, 1_700, 1_800, 1_900],
  };

  it("has a line for each row and the bytes of each library", () => {
    const text = resultsText(memory, results);
    expect(text).toContain("| replay, none ");
    expect(text).toContain("2.00x |");
    expect(text).toContain(
      "Bytes of memory for each kept key, its outcome included: nevertwice 1,500, steadykey 1,600, @node-idempotency/core 1,700.",
    );
  });

  it("has both ratios where there is a raw loop, and says who was not asked", () => {
    const [header, , row] = resultsText(redis, besideRaw).split("\n");
    expect(header?.replaceAll(/ +/g, " ")).toBe(
      "| operations per second | nevertwice | steadykey | @node-idempotency/core | powertools | raw loop | to best peer | to raw loop |",
    );
    expect(row?.replaceAll(/ +/g, " ")).toMatch(
      / not asked \| 50,000 \(40,000 to 60,000\) \| 1.00x \| 0.55x \|$/,
    );
  });

  it("explains the rows that are not as fast as meant, and only those, in microseconds of one operation", () => {
    const text = hotSpotsText(memory, results);
    expect(text).not.toContain("replay, none");
    expect(text).toContain(
      "**first call, none**: 1.00x of the best peer where 2.00x is meant; 20.0 µs an operation.",
    );
    expect(text).toContain("The main thread waits for 50.0 % of the time, and does in the rest:");
    expect(text).toContain("| claim (a.js:1) | 25.0 % | 2.50 |");
    expect(text).toContain("The worker thread waits for 0.0 % of the time, and does in the rest:");
    expect(text).toContain("| flush (b.js:1) | 100.0 % | 20.00 |");
    expect(hotSpotsText(memory, { ...results, rows: [fast] })).toBe("");
    expect(hotSpotsText(redis, besideRaw)).toContain("0.55x of the raw loop where 0.60x is meant");
  });

  it("says how it came about, and with which versions", () => {
    const text = page(memory, [results], measurement);
    const { size } = memory.tables[0] ?? {};
    expect(text).toContain("Written by `npm run bench`; do not edit.");
    expect(text).toContain(`${size?.keys.toLocaleString("en-US")} first calls`);
    expect(text).toContain("- **steadykey 9.9.9**");
    expect(text).toContain("## What our time goes into");
  });

  it("says beside each table how durable its figures are", () => {
    const text = page(redis, [besideRaw, besideRaw], measurement);
    expect(text).toContain("\n## `appendonly no`: nothing outlives the server\n");
    expect(text).toContain("\n## `appendonly yes`, `appendfsync always`: every write is flushed");
    expect(text).toContain("- **raw loop, ioredis 9.9.9**: our own scripts");
  });
});

describe("the suites of the benchmark", () => {
  const bench = new URL("../../bench/", import.meta.url);
  const libraries = suites.flatMap((suite) => librariesOf(suite));

  it.each(suites.map(({ name }) => name))("know how to open %s afresh", (name) => {
    expect(existsSync(new URL(`databases/${name}.js`, bench))).toBe(true);
  });

  it.each([...new Set(libraries.map(({ file }) => file))])("know how to run %s", (file) => {
    expect(existsSync(new URL(`libraries/${file}.js`, bench))).toBe(true);
  });

  it.each(suites.map(({ name, tables }) => [name, tables]))(
    "measure %s five times, 64 in flight",
    (_, tables) => {
      for (const { size, fingerprints } of tables) {
        expect(size).toMatchObject({ runs: 5, inFlight: 64 });
        expect(fingerprints.length).toBeGreaterThan(0);
      }
    },
  );
});

describe("what the libraries are given", () => {
  const operations = makeOperations(3);

  it("has 200 bytes of request and 1,000 of outcome", () => {
    for (const { body, outcome } of operations) {
      expect(JSON.stringify(body)).toHaveLength(200);
      expect(JSON.stringify(outcome)).toHaveLength(1_000);
    }
  });

  it("is different for each operation", () => {
    expect(new Set(operations.map(({ key }) => key)).size).toBe(3);
    expect(new Set(operations.map(({ outcome }) => outcome.order)).size).toBe(3);
  });

  it("is retried with equal bytes in objects of its own", () => {
    for (const operation of operations) {
      const retry = retryOf(operation);
      expect(retry).toEqual(operation);
      expect(retry.body).not.toBe(operation.body);
    }
  });
});

describe("the peers' installation", () => {
  const peer = { version: "1.0.0", integrity: "sha512-a" };
  const lockfile = { packages: { "": {}, "node_modules/peer": peer } };

  it("is current if it has what the lockfile asks for", () => {
    expect(isInstalled(lockfile, { packages: { "node_modules/peer": { ...peer } } })).toBe(true);
  });

  it.each([
    ["a package is missing", {}],
    ["a version is another", { "node_modules/peer": { ...peer, version: "1.0.1" } }],
    ["the content is another", { "node_modules/peer": { ...peer, integrity: "sha512-b" } }],
    ["there is one more", { "node_modules/peer": peer, "node_modules/stray": peer }],
  ])("is stale if %s", (_, packages) => {
    expect(isInstalled(lockfile, { packages })).toBe(false);
  });
});
