/** Sagas of which some succeed, some are undone, and some are parked: the key decides. Their effects are notes. */
import { setTimeout as sleep } from "node:timers/promises";
import { sagaSteps } from "../saga-steps.js";
import { openMysql, openPg, openSqlite } from "./databases.js";
import { reachWork } from "./points.js";

/** @typedef {import("../effects.js").OpenDoor} OpenDoor */

/** How many steps each saga has. */
export const SAGA_STEPS = 3;
const LIMITS = { leaseMs: 3_000, storeTimeoutMs: 1_000 };

/** Which step of the saga fails, and which undo; none if the number is too large. @param {string} key */
function sagaFate(key) {
  const number = Number(key.split(" ")[1]);
  return { failsAt: number % (2 * SAGA_STEPS), stuckAt: number % (5 * SAGA_STEPS) };
}

/** @param {(url: string, load: import("./databases.js").Load) => Promise<{ store: unknown, close(): unknown }>} openDatabase @returns {OpenDoor} */
function on(openDatabase) {
  return async ({ url, load, createGuard }) => {
    const { store, close } = await openDatabase(url, load);
    const { saga } = await load("saga/index.js");
    const guard = createGuard({ store, ...LIMITS });
    return {
      async run(key, { note }) {
        const { failsAt, stuckAt } = sagaFate(key);
        const subject = { operation: "order", key };
        const steps = sagaSteps(SAGA_STEPS, {
          write: (written) => note("saga", written),
          kept: async () =>
            (await guard.read(subject))?.steps?.map((/** @type {any} */ { name }) => name) ?? [],
          fails: (direction, step) => step === `step ${direction === "run" ? failsAt : stuckAt}`,
          async reach() {
            reachWork();
            await sleep(1);
          },
        });
        const { status } = await saga(guard, { ...subject, undoRetry: { max: 0 } }, steps);
        if (["done", "undone", "parked"].includes(status)) return status;
        throw Object.assign(new Error(status), { code: status });
      },
      close: () => guard.close().then(close),
    };
  };
}

export const DRIVERS = { pg: on(openPg), mysql2: on(openMysql), sqlite: on(openSqlite) };
