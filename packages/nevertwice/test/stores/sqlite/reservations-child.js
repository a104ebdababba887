/**
 * The other processes of the tests on reservations in a SQLite file: `node reservations-child.js <act> <build> <file> …`.
 * Prints lines of JSON. Plain JavaScript that uses the build, so that any Node can run it.
 */
import { once } from "node:events";

const [act = "", build = "", file = "", ...rest] = process.argv.slice(2);
const { createReservations } = await import(`${build}reservations/index.js`);
const { sqliteReservations } = await import(`${build}reservations/sqlite.js`);
const store = sqliteReservations({ file });
const seats = createReservations({ store, namespace: "air", windowMs: 3_600_000, actionMs: 60_000 });

/** @param {unknown} said */
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);
const nextLine = async () => {
  await once(process.stdin, "data");
  process.stdin.pause();
};

/** @type {Readonly<Record<string, () => Promise<void>>>} */
const ACTS = {
  /** Requests the same holds under the same keys as another process at the same time, and prints the answers. */
  async contend() {
    const [count = "0"] = rest;
    say("ready");
    await nextLine();
    const keys = Array.from({ length: Number(count) }, (_, i) => `key ${i}`);
    const answers = await Promise.all(
      keys.map((key) =>
        seats.placeHold({ resource: `seat of ${key}`, requester: "ann", durationMs: 60_000, key }),
      ),
    );
    say(answers);
    await seats.close();
    await store.close();
  },

  /** Holds, and confirms or releases, for ever; prints each hold that was answered. */
  async flood() {
    const [who = ""] = rest;
    for (let i = 0; ; i++) {
      const asked = Array.from({ length: 40 }, async (_, j) => {
        const key = `${who} ${i} ${j}`;
        const answer = await seats.placeHold({ resource: "pool", requester: who, durationMs: 60_000, key });
        if (!answer.ok) return;
        say(answer.id);
        if (j % 2 === 0) await seats.confirm({ id: answer.id, key: `confirm ${key}` });
        else await seats.release({ id: answer.id, key: `release ${key}` });
      });
      await Promise.all(asked);
    }
  },

  /** Uses reservations once and never closes them. */
  async leave() {
    say(await seats.placeHold({ resource: "1A", requester: "ann", durationMs: 60_000, key: "left" }));
  },
};

await ACTS[act]?.();
