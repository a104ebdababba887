/** Tests many processes, some of which are killed while they work: every answer is true, and no unit is sold twice. Needs the build. */
import { join } from "node:path";
import { describe, expect, type TestContext, test } from "vitest";
import { createReservations, type JournalEvent } from "../../src/reservations/index.ts";
import { openReservations } from "../../src/reservations/open.ts";
import { readAll } from "../reservations/records.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { count, report } from "./figures.ts";
import { type Message, startProcess } from "./processes.ts";
import { lostOf, notesIn, oversoldIn } from "./reservations-referee.ts";
import { sizeOf } from "./sizes.ts";
import { POSTGRES } from "./subjects.ts";

const NAMESPACE = "scale";
const RULES = { namespace: NAMESPACE, windowMs: 3_600_000, actionMs: 60_000, purgeEveryMs: 0 };
const CAPACITY = 5;
const LANES = 32;

interface Progress extends Message {
  readonly kind: "progress";
  readonly told: number;
}

test("processes that reserve the same resources and are killed at random lose no answer, and no unit is ever taken twice", async (context) => {
  const { processes, actions, kills } = sizeOf("reservations");
  const url = await POSTGRES.create(context);
  const store = await openReservations(url);
  context.onTestFinished(() => store.close());
  const reservations = createReservations({ store, ...RULES });
  const resources = await declared(reservations);
  const folder = await scratchFolder(context);

  const startedAt = performance.now();
  const names = Array.from({ length: processes }, (_, index) => `p${index}`);
  const share = { url, actions: Math.ceil(actions / processes), lanes: LANES, resources, rules: RULES };
  const killed = await Promise.all(
    names.map((name, index) => {
      const times = Math.floor(kills / processes) + (index < kills % processes ? 1 : 0);
      return work(context, { ...share, name, notes: join(folder, name) }, times);
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;

  const notes = (await Promise.all(names.map((name) => notesIn(join(folder, name))))).flat();
  const lost = lostOf(notes, await readAll((page) => store.keys(page), NAMESPACE));
  expect(lost.slice(0, 5)).toEqual([]);
  const events = await readAll((page) => store.events(page), NAMESPACE);
  const oversold = oversoldIn(events, resources, CAPACITY);
  expect(oversold.slice(0, 5)).toEqual([]);
  const audit = await reservations.auditReport();
  expect(audit.data.ok, audit.toString()).toBe(true);
  const failures = notes.filter(({ answer }) => !answer.ok && /-failure$/.test(answer.reason)).length;
  await report(store, {
    trial: "Reservations of the same resources",
    figures: `${processes} processes, ${killed.reduce((sum, times) => sum + times, 0)} kills: ${count(notes.length)} answers in ${seconds.toFixed(1)} s (${count(notes.length / seconds)} a second), ${failures} of which reported a failure of the store, ${count(events.length)} events; ${lost.length} answers lost, ${oversold.length} instants oversold, audit ${audit.data.ok ? "clean" : "not clean"}`,
  });
  expect(notes.length).toBeGreaterThanOrEqual(actions);
});

async function declared(reservations: ReturnType<typeof createReservations>): Promise<string[]> {
  const names = Array.from({ length: 24 }, (_, index) => `pool ${index}`);
  for (const resource of names)
    expect(
      await reservations.resources.declare({ resource, capacity: CAPACITY, key: `declare ${resource}` }),
    ).toEqual({ ok: true });
  return names;
}

interface Work {
  readonly actions: number;
  readonly name: string;
  readonly notes: string;
}

/** Runs one process after another until their share of the work is done. All except the last are killed at a random point. */
async function work(context: TestContext, options: Work, kills: number): Promise<number> {
  for (let killed = 0; killed < kills; killed++) {
    const process = startProcess(context, "reserver.js", options);
    const from = (options.actions * killed) / (kills + 1);
    const until = from + (Math.random() * options.actions) / (kills + 1);
    let told = 0;
    while (told < until) told = (await process.next<Progress>("progress")).told;
    process.signal("SIGKILL");
    await process.ended;
  }
  await startProcess(context, "reserver.js", options).ended;
  return kills;
}

describe("the referee of the reservations", () => {
  const event = (number: number, kind: string, at: number, detail: object, id = "c1") =>
    ({ subject: `commitment:${id}`, number, kind, at, detail: JSON.stringify(detail) }) as JournalEvent;
  const placed = (at: number, units: number, id?: string) =>
    event(1, "placed", at, { resource: "bed", units }, id);

  test("reports a time at which more units were taken than exist", () => {
    const events = [placed(1, 3), placed(5, 3, "c2"), event(2, "released", 6, { units: 0 })];
    expect(oversoldIn(events, ["bed"], 5)).toEqual(["6 of bed at 5"]);
    expect(oversoldIn([events[0], { ...events[1], at: 6 }, events[2]] as JournalEvent[], ["bed"], 5)).toEqual(
      [],
    );
  });

  test("reports units that were given back twice", () => {
    const events = [
      placed(1, 1),
      event(2, "confirmed", 2, { units: 1 }),
      event(3, "given-back", 3, { units: 1 }),
    ];
    expect(oversoldIn(events, ["bed"], 5)).toEqual([]);
    const twice = [...events, event(4, "given-back", 4, { units: 1 })];
    expect(oversoldIn(twice, ["bed"], 5)).not.toEqual([]);
  });

  test("reports an answer that the records do not contain", () => {
    const notes = [{ key: "k", answer: { ok: true, id: "c1" } }] as const;
    expect(lostOf(notes, [{ key: "k", answer: { ok: true, id: "c1" } }])).toEqual([]);
    expect(lostOf(notes, [{ key: "k", answer: { ok: true, id: "c2" } }])).toHaveLength(1);
    expect(lostOf(notes, [])).toHaveLength(1);
  });
});
