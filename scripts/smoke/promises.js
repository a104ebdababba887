/** Everything that the package promises on each runtime. It imports nothing but the package, and Hono. */
import { createGuard } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
import { DOORS } from "./doors.js";
import { FUNCTIONS } from "./functions.js";
import { same } from "./same.js";
import { VECTORS } from "./vectors.js";

/** Throws with the name of the first promise that is not kept. Returns how many were. */
export async function keepPromises() {
  const promises = [...FUNCTIONS, ...DOORS, ...VECTORS];
  for (const [name, smoke] of promises) {
    const guard = createGuard({ store: memoryStore() });
    await smoke(guard).catch((error) => {
      throw new Error(`${name}: ${error instanceof Error ? error.message : error}`, { cause: error });
    });
    same(await guard.close(), [], `${name}: what was left running`);
  }
  return promises.length;
}
