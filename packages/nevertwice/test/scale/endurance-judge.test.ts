/** Tests the judge of the long trial: it accepts what is right, and reports a planted duplicate, a lost outcome and a leak. */
import { describe, expect, test } from "vitest";
import type { Store, StoreRecord } from "../../src/core/store.ts";
import {
  acknowledgedKeys,
  type EnduranceNote,
  type EnduringProcess,
  judgeEffects,
  measureDrift,
  measureLatency,
  measureProcesses,
  missedBars,
  type Quarters,
  readBackAll,
} from "./endurance-judge.ts";

const RETENTION_MS = 60_000;
const S = 1_000_000;

/** A call that ran the work, with the outcome "key by who". */
function ran(key: string, who: string, at: number): EnduranceNote[] {
  return [
    ["effect", key, `${key} by ${who}`, at],
    ["answer", key, "ran", `${key} by ${who}`, at - 1_000, 2],
  ];
}

const replayed = (key: string, who: string, at: number): EnduranceNote => [
  "answer",
  key,
  "replayed",
  `${key} by ${who}`,
  at,
  1,
];

const living = (...notes: EnduranceNote[]): EnduringProcess => ({ notes, wasKilled: false });
const killed = (...notes: EnduranceNote[]): EnduringProcess => ({ notes, wasKilled: true });
const judge = (...processes: EnduringProcess[]) => judgeEffects(processes, RETENTION_MS);

describe("the judge of effects", () => {
  test("accepts effects, replays by other processes, and refusals", () => {
    const refused: EnduranceNote[] = [
      ["answer", "b", "pending", "", 2 * S, 10_000],
      ["answer", "b", "unavailable", "", 3 * S, 5_000],
    ];
    const verdict = judge(living(...ran("a", "one", S)), living(replayed("a", "one", 30 * S), ...refused));
    expect(verdict).toEqual({
      calls: 4,
      effects: 1,
      replays: 1,
      acknowledged: 1,
      repeatedAfterKill: 0,
      duplicates: [],
      wrongAnswers: [],
      refused: 2,
    });
  });

  test("reports an effect that happens again within the retention of the first one", () => {
    const { duplicates } = judge(living(...ran("a", "one", S)), living(...ran("a", "two", 31 * S)));
    expect(duplicates).toEqual(['a: "a by one" happened, and "a by two" 30000 ms later']);
  });

  test("accepts an effect after the retention of the first one", () => {
    expect(judge(living(...ran("a", "one", S), ...ran("a", "two", 62 * S))).duplicates).toEqual([]);
  });

  test("reports an effect that happens again although its first process lives and was told nothing", () => {
    const first = living(["effect", "a", "a by one", S], ["answer", "a", "unavailable", "", S, 5_000]);
    expect(judge(first, living(...ran("a", "two", 31 * S))).duplicates).toHaveLength(1);
  });

  test("accepts that the effect of a killed process happens again if no caller was told of it", () => {
    const verdict = judge(killed(["effect", "a", "a by one", S]), living(...ran("a", "two", 31 * S)));
    expect(verdict).toMatchObject({ duplicates: [], repeatedAfterKill: 1, wrongAnswers: [] });
  });

  test("reports that the effect of a killed process happens again if a caller was told of it", () => {
    expect(judge(killed(...ran("a", "one", S)), living(...ran("a", "two", 31 * S))).duplicates).toHaveLength(
      1,
    );
  });

  test("reports an outcome without an effect, and a refusal without a reason", () => {
    expect(judge(living(replayed("a", "nobody", S))).wrongAnswers).toEqual([
      'a: a caller was given "a by nobody", which never happened',
    ]);
    expect(judge(living(["answer", "a", "conflict", "", S, 1])).wrongAnswers).toEqual([
      "a: a caller was told conflict",
    ]);
  });

  test("takes only outcomes that were recorded for acknowledged", () => {
    const notes: EnduranceNote[] = [
      ...ran("a", "one", S),
      ["effect", "b", "b by one", S],
      ["answer", "b", "ran, not recorded", "b by one", S, 5_000],
    ];
    expect(acknowledgedKeys([living(...notes)])).toEqual(
      new Map([["a", { value: "a by one", effectAt: S }]]),
    );
    expect(judge(living(...notes)).wrongAnswers).toEqual([]);
  });
});

describe("the judge of what is read back", () => {
  const acknowledged = acknowledgedKeys([living(...ran("a", "one", S), ...ran("b", "one", 2 * S))]);

  /** A store that has these outcomes, in the order in which they are asked for. */
  function storeWith(...outcomes: (string | undefined)[]): Pick<Store, "read"> {
    const left = [...outcomes];
    return {
      async read() {
        const outcome = left.shift();
        return outcome === undefined ? undefined : ({ state: "completed", outcome } as StoreRecord);
      },
    };
  }

  test("accepts a store that has every acknowledged outcome", async () => {
    const store = storeWith('{"value":"a by one"}', '{"value":"b by one"}');
    expect(await readBackAll(store, acknowledged, RETENTION_MS, () => 30 * S)).toEqual({
      readBack: 2,
      lost: [],
    });
  });

  test("reports an outcome that is gone, and one that is another", async () => {
    const store = storeWith(undefined, '{"value":"b by two"}');
    expect(await readBackAll(store, acknowledged, RETENTION_MS, () => 30 * S)).toEqual({
      readBack: 2,
      lost: [
        'a: "a by one" was acknowledged, and the record is absent',
        'b: "b by one" was acknowledged, and the record is completed',
      ],
    });
  });

  test("does not ask for an outcome whose retention has ended", async () => {
    const store = storeWith(undefined);
    expect(await readBackAll(store, acknowledged, RETENTION_MS, () => 70 * S)).toEqual({
      readBack: 0,
      lost: [],
    });
  });
});

const QUARTERS: Quarters = [0, 100 * S, 200 * S, 300 * S, 400 * S];
const SECONDS = Array.from({ length: 400 }, (_, second) => second);

/** A sample of each second. Both values grow by these factors in the course of a quarter. */
function samples(heapGrowth: number, descriptorGrowth: number): EnduranceNote[] {
  return SECONDS.map((second) => {
    const quarters = second / 100;
    return ["sample", second * S, 2e7 * heapGrowth ** quarters, 40 * descriptorGrowth ** quarters];
  });
}

/** A hundred calls each second, of which `slow` take 30 ms. */
function calls(ms: (second: number) => number, slow: (second: number) => number): EnduranceNote[] {
  return SECONDS.flatMap((second) =>
    Array.from({ length: 100 }, (_, index): EnduranceNote => {
      const took = index < slow(second) ? 30 : ms(second);
      return ["answer", `${second}-${index}`, "ran", "", (second + index / 100) * S, took];
    }),
  );
}

const compare = (notes: EnduranceNote[]) =>
  measureDrift(
    [...measureProcesses([living(...notes)]), ...measureLatency([living(...notes)], 5 * S)],
    QUARTERS,
  );

describe("the judge of drift", () => {
  const steady = () => 2;
  const none = () => 0;

  test("accepts steady figures, and a third quarter that was slow", () => {
    const failing = (second: number) => (second >= 200 && second < 300 ? 500 : 2);
    const drifts = compare([...samples(1, 1), ...calls(failing, none)]);
    expect(drifts.map(({ what, ratio }) => [what, ratio])).toEqual([
      ["heap of a process", 1],
      ["open descriptors of a process", 1],
      ["p50", 1],
      ["p99", 1],
    ]);
    expect(missedBars(drifts)).toEqual([]);
  });

  test("accepts a heap that has grown by 8 %, and reports one that has grown by 12 %", () => {
    expect(missedBars(compare([...samples(1.08 ** 0.5, 1), ...calls(steady, none)]))).toEqual([]);
    const missed = missedBars(compare([...samples(1.12 ** 0.5, 1), ...calls(steady, none)]));
    expect(missed).toEqual([
      expect.stringMatching(
        /^heap of a process: 21\.\d\d MB in the second quarter and 24\.\d\d MB in the last one, 1\.12 times; at most 1\.1$/,
      ),
    ]);
  });

  test("reports descriptors that are never closed", () => {
    const missed = missedBars(compare([...samples(1, 1.2), ...calls(steady, none)]));
    expect(missed).toEqual([expect.stringContaining("open descriptors of a process")]);
  });

  test("reports a median that has grown by 15 %, and a p99 that has grown by more than 25 %", () => {
    const slower = compare([...samples(1, 1), ...calls((second) => (second >= 300 ? 2.3 : 2), none)]);
    expect(missedBars(slower)).toEqual([expect.stringMatching(/^p50: 2\.00 ms .* 1\.15 times/)]);
    const rarely = compare([...samples(1, 1), ...calls(steady, (second) => (second >= 300 ? 2 : 0))]);
    expect(missedBars(rarely)).toEqual([
      expect.stringMatching(/^p99: 2\.00 ms .* 15\.00 times; at most 1\.25$/),
    ]);
  });

  test("is not misled by a moment in which the machine is busy", () => {
    const busy = (second: number) => (second >= 310 && second < 340 ? 40 : 2);
    expect(missedBars(compare([...samples(1, 1), ...calls(busy, none)]))).toEqual([]);
  });

  test("reports a figure that was not measured", () => {
    expect(missedBars(compare(calls(steady, none)))).toHaveLength(2);
  });
});
