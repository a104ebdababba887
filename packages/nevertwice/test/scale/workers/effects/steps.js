/** Work in steps whose effects are outside the database: each is a note that it began, and one that it is kept. */
import { setTimeout as sleep } from "node:timers/promises";
import { openMysql, openPg, openSqlite } from "./databases.js";
import { reachWork } from "./points.js";

/** @typedef {import("../effects.js").OpenDoor} OpenDoor */

const STEPS = ["charge", "ship", "mail"];
const LIMITS = { leaseMs: 1_500, storeTimeoutMs: 1_000 };

/** @param {(url: string, load: import("./databases.js").Load) => Promise<{ store: unknown, close(): unknown }>} openDatabase @returns {OpenDoor} */
function on(openDatabase) {
  return async ({ url, load, createGuard }) => {
    const { store, close } = await openDatabase(url, load);
    const guard = createGuard({ store, ...LIMITS });
    return {
      run: (key, { newValue, note }) =>
        guard.run({ operation: "order", key }, async (/** @type {any} */ attempt) => {
          const values = [];
          for (const step of STEPS) {
            const value = await attempt.step(step, async () => {
              const begun = newValue();
              note("begun", step, begun);
              reachWork();
              await sleep(1);
              return begun;
            });
            note("kept", step, value);
            values.push(value);
          }
          return values.join();
        }),
      close: () => guard.close().then(close),
    };
  };
}

export const DRIVERS = { pg: on(openPg), mysql2: on(openMysql), sqlite: on(openSqlite) };
