/** Tests the scoreboard: nevertwice passes it, every scenario can fail, and the page says what was found. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { frozen, unguarded } from "./scoreboard-planted.js";

/** @param {string} file */
const load = (file) => import(new URL(`../../scoreboard/${file}`, import.meta.url).href);

const { judge } = await load("judge.js");
const { loadLibrary } = await load("libraries.js");
const { scenarios } = await load("scenarios.js");
const { parseScoreboardArguments } = await load("arguments.js");
const { runMatrix } = await load("matrix.js");
const { scoreboardPage } = await load("page.js");
const { slowness } = await load("slowness.js");
const { countLines } = await load("ledger.js");

/** @typedef {{ number: number, verdict: string, evidence: string }} Verdict */

/** It moves the clock of its process, so it runs alone. */
const CLOCKS = 20;
/** Their failure is that a key is never free again, or that it is the same as another one. */
const FROZEN = [6, 11, 12, 13, 18, CLOCKS, 21, 27, 28];
/** Quick scenarios of several groups. The scoreboard itself runs all of them on every store. */
const ON_SQLITE = [1, 8, 18, 21, 30];

/** @type {string} */
let folder;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "nevertwice-scoreboard-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/**
 * @param {any} library
 * @param {number} number
 * @param {{ attempt?: number, patienceMs?: number, faultLeaseMs?: number }} [sizes]
 * @returns {Promise<Verdict>}
 */
async function verdictFor(library, number, { attempt = 1, ...sizes } = {}) {
  const place = join(folder, `${library.name}-${number}-${attempt}`);
  const target = library.place === "file" ? { file: `${place}.db` } : {};
  const scenario = scenarios.find((/** @type {any} */ each) => each.number === number);
  const size = { backlog: 500, faultLeaseMs: 3_000, ...sizes };
  const result = await judge({ library, scenario, target, ledgerFile: place, ...size });
  return { number, verdict: result.verdict, evidence: result.evidence };
}

/**
 * Many scenarios at once make the machine busy, and what they measure depends on leases. What fails beside others counts only
 * if it fails alone, too.
 *
 * @param {any} library
 * @param {readonly Verdict[]} verdicts
 */
async function repeatFailed(library, verdicts) {
  const repeated = [];
  for (const found of verdicts)
    repeated.push(found.verdict === "pass" ? found : await verdictFor(library, found.number, { attempt: 2 }));
  return repeated;
}

/** @type {readonly number[]} */
const NUMBERS = scenarios.map((/** @type {any} */ { number }) => number);

/**
 * Each store on SQLite starts a thread, and a busy machine is slow to start many at once.
 *
 * @param {readonly number[]} numbers
 * @param {(number: number) => Promise<Verdict>} run
 */
async function inTurn(numbers, run) {
  const verdicts = [];
  for (const number of numbers) verdicts.push(await run(number));
  return verdicts;
}

describe("the scenarios", () => {
  it("are thirty, each with its own number", () => {
    expect(NUMBERS).toEqual(Array.from({ length: 30 }, (_, i) => i + 1));
  });

  describe("on nevertwice, and on libraries that are broken on purpose", () => {
    /** @type {{ ours: Verdict[], planted: Verdict[] }} */
    let found;
    // All at once, since they wait for leases most of the time.
    beforeAll(async () => {
      const [memory, sqlite] = await Promise.all([
        loadLibrary("nevertwice-memory"),
        loadLibrary("nevertwice-sqlite"),
      ]);
      /** @param {number} number */
      const brokenVerdict = (number) =>
        verdictFor(FROZEN.includes(number) ? frozen : unguarded, number, {
          patienceMs: 1_000,
          faultLeaseMs: 500,
        });
      const others = NUMBERS.filter((number) => number !== CLOCKS);
      // The heap of a process that does other work says nothing of a backlog: SQLite counts its records.
      const inMemory = others.filter((number) => number !== 21);
      const [ours, onSqlite, planted] = await Promise.all([
        Promise.all(inMemory.map((number) => verdictFor(memory, number))),
        inTurn(ON_SQLITE, (number) => verdictFor(sqlite, number)),
        Promise.all(others.map(brokenVerdict)),
      ]);
      found = {
        ours: [
          ...(await repeatFailed(memory, ours)),
          ...(await repeatFailed(sqlite, onSqlite)),
          await verdictFor(memory, CLOCKS),
        ],
        planted: [...planted, await brokenVerdict(CLOCKS)],
      };
    }, 600_000);

    it("are passed by nevertwice in memory, and a share of them on SQLite", () => {
      expect(found.ours.filter(({ verdict }) => verdict !== "pass")).toEqual([]);
    });

    it("can each fail", () => {
      expect(found.planted).toHaveLength(30);
      expect(found.planted.filter(({ verdict }) => verdict !== "fail")).toEqual([]);
    });
  });

  it("fail when they do not end before their deadline", async () => {
    const scenario = { number: 1, deadlineMs: 10, run: () => new Promise(() => {}) };
    const result = await judge({
      library: unguarded,
      scenario,
      target: {},
      ledgerFile: join(folder, "hung"),
    });
    expect(result).toMatchObject({ verdict: "fail", evidence: expect.stringMatching(/^no end within/) });
  });

  it("do not apply where a library says so", async () => {
    const library = { ...unguarded, name: "limited", without: { 3: "It has no HTTP layer." } };
    expect(await verdictFor(library, 3)).toMatchObject({
      verdict: "not applicable",
      evidence: "It has no HTTP layer.",
    });
    const { openHttp: _, ...withoutHttp } = unguarded;
    expect(await verdictFor({ ...withoutHttp, name: "functions" }, 14)).toMatchObject({
      verdict: "not applicable",
    });
  });
});

it("runs each scenario in a process of its own", async () => {
  const library = await loadLibrary("nevertwice-memory");
  const pairs = [8, 11].map((number) => ({ library, scenario: scenarios[number - 1] }));
  const results = await runMatrix(pairs, { urls: {} });
  expect(results.map((/** @type {any} */ { scenario, verdict }) => [scenario.number, verdict])).toEqual([
    [8, "pass"],
    [11, "pass"],
  ]);
});

it("lengthens durations on a busy machine, within limits", () => {
  expect([0, 6, 12, 24, 100].map((load) => slowness(load, 2))).toEqual([1, 1, 2, 4, 4]);
});

it("counts every line of the ledger, whatever its effect is called", () => {
  expect(countLines('"a"\n"b"\n"a"\n"a b"\n', "a")).toBe(2);
});

describe("the arguments", () => {
  const all = {
    libraries: [{ name: "steadykey-memory" }, { name: "steadykey-redis" }, { name: "other" }],
    scenarios,
  };

  it("choose all rows of a library, or one", () => {
    expect(parseScoreboardArguments(["--library", "steadykey", "--scenario", "7"], all)).toMatchObject({
      libraries: [{ name: "steadykey-memory" }, { name: "steadykey-redis" }],
      scenarios: [{ number: 7 }],
      isWhole: false,
    });
    expect(parseScoreboardArguments(["--library", "steadykey-redis"], all).libraries).toHaveLength(1);
  });

  it("name what there is when something is unknown", () => {
    expect(() => parseScoreboardArguments(["--library", "steady"], all)).toThrow(
      "The libraries are steadykey-memory",
    );
    expect(() => parseScoreboardArguments(["--scenario", "31"], all)).toThrow("The scenarios are 1 to 30");
  });
});

it("shows versions, settings, verdicts and evidence on the page", () => {
  const library = {
    name: "a",
    title: "A, memory",
    packages: ["a"],
    settings: "its defaults.",
    documentation: "a.md",
  };
  const scenario = { number: 1, title: "One run, not two" };
  const page = scoreboardPage({
    libraries: [library],
    scenarios: [scenario],
    results: [{ library, scenario, verdict: "fail", evidence: "30 callers | ran it *twice*" }],
    versionOf: () => "1.2.3",
    commit: "abc1234",
    platform: "Node",
    minutes: 1,
    load: 0.5,
  });
  expect(page).toContain("| A, memory | 0 | 1 | 0 |");
  expect(page).toContain("| [1](#1-one-run-not-two) | One run, not two | **fail** |");
  expect(page).toContain("| A, memory | a 1.2.3 | its defaults. | [documentation](a.md) |");
  expect(page).toContain("- A, memory: **fail**. 30 callers \\| ran it \\*twice\\*");
  expect(page).toContain("abc1234");
});
