/** Tests the numbers of the benchmark: how they are measured in turn, summarised and explained. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { beforeEach, describe, expect, it, vi } from "vitest";
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
import { takeTurns } from "../../bench/turns.js";

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

describe("the sides of a comparison", () => {
  beforeEach(() => void vi.spyOn(console, "error").mockReturnValue());

  it("take turns, and each round begins with another", async () => {
    /** @type {string[]} */
    const order = [];
    const measure = async (/** @type {string} */ side) => order.push(side);
    expect(await takeTurns(["a", "b", "c"], 2, measure)).toEqual([
      [1, 6],
      [2, 4],
      [3, 5],
    ]);
    expect(order.join("")).toBe("abcbca");
  });
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
