/**
 * What other processes do with a lock in the tests: `node child.js <act> <build> <url> …`. Each act prints JSON lines.
 * Plain JavaScript on the build, so that any Node runs it.
 */
import { appendFileSync, closeSync, openSync, unlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [act = "", build = "", url = "", ...rest] = process.argv.slice(2);
const { createGuard } = await import(`${build}index.js`);
const { openStore } = await import(`${build}stores/open.js`);

const store = await openStore(url, { migrate: false });
const guard = createGuard({ store, purgeEveryMs: 0 });

/** @param {unknown} said */
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);

/** @type {Readonly<Record<string, () => Promise<void>>>} */
const ACTS = {
  /** Enters critical sections. Each creates and removes a file, so that an overlap of two sections is detected. */
  async contend() {
    const [folder = "", sections = "0"] = rest;
    for (let i = 0; i < Number(sections); i++) {
      await guard.exclusive(
        "processes",
        async (/** @type {{ fence: number }} */ { fence }) => {
          closeSync(openSync(`${folder}/inside`, "wx"));
          appendFileSync(`${folder}/fences`, `${fence}\n`);
          await sleep(i % 3);
          unlinkSync(`${folder}/inside`);
        },
        { waitMs: 15_000 },
      );
    }
    await guard.close();
    await store.close();
    say("done");
  },

  /** Holds the lock until it is killed. */
  async hold() {
    await guard.exclusive(
      "killed",
      (/** @type {{ fence: number }} */ { fence }) => {
        say(fence);
        return new Promise(() => setInterval(() => {}, 1_000));
      },
      { leaseMs: 4_000 },
    );
  },
};

await ACTS[act]?.();
