/** Tests what a load takes of each store, with costs that are written out here, and the command. */
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { type Coefficients, PLANNED_STORES, planStore } from "../cli/plan/capacity.ts";
import { bytesText } from "../cli/plan.ts";
import { json, run, words } from "./cli-process.ts";

/** 1,000 bytes and 2 for each byte of an outcome; 100 µs of the client and 50 of the server for a first call. */
const COSTS: Coefficients = {
  bytes: { fixed: 1_000, perByte: 2 },
  memory: { fixed: 300, perByte: 0 },
  log: { fixed: 500, perByte: 1 },
  first: { client: 100, server: 50 },
  replay: { client: 20, server: 10 },
  purge: { perSecond: 4_000, client: 1, server: 5 },
};
const ORDERED = { index: 100, log: 2_000, compressedLog: 1_000 };
const IDS = { hashed: { index: 130, log: 6_000, compressedLog: 4_000 }, ordered: ORDERED };

/** 8,000 first calls and 2,000 replays a second. */
const LOAD = { rate: 10_000, retentionMs: 60_000, outcomeBytes: 100, replays: 0.2 };

const { purge: _, ...UNPURGED } = COSTS;

describe("a plan", () => {
  test("multiplies the costs of a key and of a call", () => {
    expect(planStore("postgres", { ...COSTS, ids: IDS }, LOAD)).toEqual({
      store: "postgres",
      keys: 480_000,
      storedBytes: 576_000_000,
      memoryBytes: 144_000_000,
      logBytesPerSecond: 4_800_000,
      // 4,000 bytes more for each first call, whose id is in a page that the log gets as a whole.
      mostLogBytesPerSecond: 36_800_000,
      // 101 µs for each of 8,000 first calls, which are purged one day, and 20 for each of 2,000 replays.
      clientCores: 0.848,
      processes: 2,
      serverCores: 0.46,
      masters: undefined,
      connections: 22,
      expiring: 8_000,
      purgedPerSecond: 4_000,
      units: undefined,
      warnings: [],
    });
  });

  test("counts the units of DynamoDB by the size of the item, and no processors", () => {
    // 1,000 bytes are one unit to write, and 5,000 are five to write and two to read.
    const load = { ...LOAD, outcomeBytes: 2_000 };
    expect(planStore("dynamodb", UNPURGED, load)).toMatchObject({
      units: { writes: 58_000, readFirst: { writes: 48_000, reads: 12_000 } },
      clientCores: undefined,
      processes: undefined,
      serverCores: undefined,
      connections: undefined,
      warnings: [],
    });
  });

  test("a line that falls by noise does not make large outcomes smaller", () => {
    const costs = { ...COSTS, memory: { fixed: 300, perByte: -0.02 } };
    expect(planStore("postgres", costs, { ...LOAD, outcomeBytes: 100_000 }).memoryBytes).toBe(144_000_000);
  });

  test("a load of replays alone keeps no key and still takes processors", () => {
    expect(planStore("postgres", COSTS, { ...LOAD, replays: 1 })).toMatchObject({
      keys: 0,
      storedBytes: 0,
      logBytesPerSecond: 0,
      expiring: 0,
      clientCores: 0.2,
      serverCores: 0.1,
    });
  });

  test("a cluster has a master for each 70 % of a processor, and three or more", () => {
    expect(planStore("redis-cluster", UNPURGED, LOAD)).toMatchObject({ masters: 3, connections: 12 });
    // 64,000 first calls take 3.2 processors of the servers, and 16,000 replays 0.16.
    expect(planStore("redis-cluster", UNPURGED, { ...LOAD, rate: 80_000 })).toMatchObject({
      serverCores: 3.36,
      masters: 5,
      warnings: [],
    });
  });

  test.for([
    ["sqlite", LOAD, "one machine, and one transaction at a time: use a server for this rate"],
    [
      "redis",
      { ...LOAD, rate: 40_000 },
      "one server runs commands on one processor: use a cluster for this rate",
    ],
    [
      "postgres",
      { ...LOAD, rate: 100_000 },
      "more connections than max_connections allows by default (100): raise it, or set poolSize",
    ],
    [
      "mysql",
      { ...LOAD, rate: 100_000 },
      "more keys expire than the guards of these processes remove: the table grows",
    ],
    [
      "dynamodb",
      { ...LOAD, outcomeBytes: 400_001 },
      "an item has no room for such an outcome: it is completed as not kept",
    ],
  ] as const)("warns of %s where the load is too much", ([store, load, warning]) => {
    expect(planStore(store, COSTS, load).warnings).toContain(warning);
    expect(planStore(store, COSTS, { ...LOAD, rate: 10 }).warnings).toEqual([]);
  });
});

describe("the text of bytes", () => {
  test.for([
    [0, "0 B"],
    [7, "7 B"],
    [999, "999 B"],
    [999.9, "1.00 kB"],
    [1_234, "1.23 kB"],
    [12_345, "12.3 kB"],
    [999_499, "999 kB"],
    [999_600, "1.00 MB"],
    [164_000_000_000, "164 GB"],
    [1.5e21, "1.50 ZB"],
    [2e27, "2000 YB"],
    [undefined, "-"],
  ] as const)("%s is %s", ([value, text]) => {
    expect(bytesText(value)).toBe(text);
  });
});

describe("nevertwice plan", () => {
  test("prints a column for each store, and where the numbers come from", async () => {
    const { code, out, err } = await run(
      words("plan --rate 10000 --retention 24h --outcome 300 --replays 5%"),
    );
    expect(code).toBe(0);
    expect(out[0]?.trim().split(/\s+/)).toEqual([...PLANNED_STORES]);
    expect(out[1]).toMatch(/^keys kept {2,}820,800,000 /);
    expect(err.join()).toMatch(/costs measured \d{4}-\d\d-\d\d/);
  });

  test("answers programs with the load, the date of the costs and the plans", async () => {
    const { out } = await run(words("plan --rate 100 --replays 50% --retention 1h --json"));
    expect(JSON.parse(out.join("\n"))).toMatchObject({
      ok: true,
      data: {
        load: { rate: 100, retentionMs: 3_600_000, outcomeBytes: 300, replays: 0.5 },
        measured: { date: expect.stringMatching(/^\d{4}-\d\d-\d\d$/), outcomes: [100, 1_000, 4_000] },
        warnings: [],
        plans: PLANNED_STORES.map((store) => ({ store, keys: 180_000 })),
      },
    });
  });

  test("plans one store, and says where an outcome is larger than what was measured", async () => {
    const found = await json<{ warnings: string[]; plans: { store: string }[] }>(
      ...words("plan --only redis-cluster --outcome 2000000"),
    );
    expect(found.plans.map(({ store }) => store)).toEqual(["redis-cluster"]);
    expect(found.warnings).toEqual([
      "outcomes were measured up to 4,000 bytes: the rest is a guess",
      "a guard keeps such an outcome only with a larger maxOutcomeBytes",
    ]);
  });

  test.for([
    ["--rate", "0", "--rate must be a number above 0, and at most 1000000000"],
    ["--rate", "many", "--rate must be a number above 0"],
    ["--rate", "1e300", "--rate must be a number above 0"],
    ["--rate", "1000000001", "--rate must be a number above 0"],
    ["--replays", "101%", "--replays must be a percentage from 0% to 100%, such as 5%."],
    ["--replays", "1", "--replays must be a percentage"],
    ["--replays", "few", "--replays must be a percentage"],
    ["--outcome", "-1", "--outcome must be a whole number of at least 0."],
    ["--retention", "24", "--retention"],
    ["--only", "postgress", 'Did you mean "postgres"?'],
    ["--rat", "5", 'Did you mean "--rate"?'],
  ] as const)("refuses %s %s", async ([flag, value, message]) => {
    const { code, err } = await run(["plan", `${flag}=${value}`]);
    expect(code).toBe(2);
    expect(err.join("\n")).toContain(message);
  });

  test("docs/scale.md shows what it prints", async () => {
    const page = await readFile(new URL("../../../docs/scale.md", import.meta.url), "utf8");
    const blocks = [...page.matchAll(/```console\n\$ nevertwice (plan[^\n]*)\n([\s\S]*?)```/g)];
    expect(blocks.length).toBeGreaterThan(1);
    for (const [, command = "", shown = ""] of blocks) {
      const { out } = await run(words(command));
      expect(shown.trimEnd().split("\n"), command).toEqual(out);
    }
  });
});
