/** Tests that each of the twenty-two invariants can be broken, and says so: who cannot fail proves nothing. */
import { expect, test } from "vitest";
import {
  createReservations,
  type JournalEvent,
  type KeptCommitment,
  type KeyRecord,
} from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";
import { broken, INVARIANTS, type Moment } from "./invariants.ts";
import type { Call } from "./model.ts";
import { readRecords } from "./records.ts";

const TERMS = { windowMs: 60_000, historyMs: 0, maxDurationMs: 60_000 };
const PLACE: Call = {
  action: "placeHold",
  key: "k1",
  parameters: { resource: "bed", requester: "ann", durationMs: 1_000, units: 1 },
};

/** A placed hold; a retry of its placement; later its confirmation; and the placement again after the window. */
async function moments(): Promise<Record<"first" | "again" | "end" | "later", Moment>> {
  const clock = manualClock(0);
  const store = memoryReservations({ clock });
  const reservations = createReservations({ store, namespace: "n", ...TERMS, purgeEveryMs: 0 });
  const read = () => readRecords(store, "n");
  const ask = async (call: Call): Promise<Moment> => {
    const before = await read();
    const { action, key, parameters } = call;
    const doors = reservations as unknown as Record<string, (request: object) => Promise<{ ok: true }>>;
    const answer = await doors[action]?.({ key, ...parameters });
    return {
      terms: TERMS,
      at: clock.now(),
      answered: [{ call, answer: answer ?? { ok: true } }],
      before,
      after: await read(),
    };
  };
  const first = await ask(PLACE);
  const again = await ask(PLACE);
  clock.advance(500);
  const id = first.after.commitments[0]?.id;
  const end = await ask({ action: "confirm", key: "k2", parameters: { id } });
  clock.advance(60_000);
  const later = await ask(PLACE);
  return { first, again, end, later };
}

type Doctor = (moment: Moment) => Moment;

const rows =
  (change: Partial<KeptCommitment>): Doctor =>
  (moment) => ({
    ...moment,
    after: { ...moment.after, commitments: moment.after.commitments.map((row) => ({ ...row, ...change })) },
  });
const keys =
  (change: Partial<KeyRecord>): Doctor =>
  (moment) => ({
    ...moment,
    after: { ...moment.after, keys: moment.after.keys.map((row) => ({ ...row, ...change })) },
  });
const answered =
  (change: object): Doctor =>
  (moment) => ({
    ...moment,
    answered: moment.answered.map(({ call, answer }) => ({ call, answer: { ...answer, ...change } })),
  });
const asked =
  (change: Partial<Call>): Doctor =>
  (moment) => ({
    ...moment,
    answered: moment.answered.map(({ call, answer }) => ({ call: { ...call, ...change }, answer })),
  });
const events =
  (change: (events: readonly JournalEvent[]) => readonly JournalEvent[]): Doctor =>
  (moment) => ({
    ...moment,
    after: { ...moment.after, events: change(moment.after.events) },
  });
const twice = (change: Partial<JournalEvent>) =>
  events((all) => [...all, ...all.slice(0, 1).map((event) => ({ ...event, ...change }))]);
const gone: Doctor = (moment) => ({ ...moment, after: { ...moment.after, commitments: [] } });

const DOCTORED: readonly (readonly [string, "first" | "again" | "end" | "later", Doctor])[] = [
  ["membership exclusivity", "end", rows({ state: "released" })],
  ["hold-then-held persistence", "again", rows({ state: "expired", endedAt: 1_000 })],
  ["terminal absorption", "later", rows({ state: "held", endedAt: undefined, confirmedUnits: undefined })],
  ["id stability", "end", events((all) => all.map((event) => ({ ...event, hash: `other ${event.hash}` })))],
  ["resource and requester immutability", "end", rows({ requester: "ben" })],
  ["hold window monotonicity", "first", rows({ expiresAt: 0 })],
  ["confirmation within the window", "end", rows({ endedAt: 1_000 })],
  ["transition timestamps after placement", "end", rows({ endedAt: -1 })],
  ["no id reuse", "end", twice({ hash: "new", number: 3 })],
  ["commitment store durability", "end", gone],
  ["window monotonicity", "later", keys({ recordedAt: 0 })],
  ["single recording", "again", keys({ recordedAt: 400 })],
  ["idempotency of check", "again", rows({ events: 9 })],
  ["eventual expiry", "later", keys({ recordedAt: 7 })],
  ["idempotent placeHold within the window", "again", answered({ id: "another" })],
  [
    "idempotent state transitions within the window",
    "end",
    (moment) => ({ ...answered({ ok: false, reason: "not-held" })(moment), before: moment.after }),
  ],
  ["one commitment for a key within the window", "first", twice({ subject: "commitment:another", at: 10 })],
  ["token-action binding", "again", asked({ parameters: { resource: "seat" } })],
  [
    "every decided answer is kept, rejections too",
    "first",
    keys({ answer: { ok: false, reason: "resource-unavailable" } }),
  ],
  ["recorded once for each first use", "first", keys({ recordedAt: -5 })],
  [
    "no answer is gone while its key is recorded",
    "again",
    (moment) => ({ ...moment, after: { ...moment.after, keys: [] } }),
  ],
  ["exactly one effect within the window", "end", twice({ at: 499, number: 3, kind: "confirmed" })],
];

test("all invariants hold for untouched records", async () => {
  for (const moment of Object.values(await moments())) expect(broken(moment)).toEqual([]);
  expect(DOCTORED.map(([name]) => name)).toEqual(INVARIANTS.map(({ name }) => name));
});

for (const [name, which, doctor] of DOCTORED)
  test(`${name} is reported as broken`, async () => {
    const moment = doctor((await moments())[which]);
    expect(
      broken(
        moment,
        INVARIANTS.filter((invariant) => invariant.name === name),
      ),
    ).not.toEqual([]);
  });
