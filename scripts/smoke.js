/**
 * Checks what every runtime must do with the built package, in real time: `node scripts/smoke.js`, or with bun or deno. It
 * prints one line; a failed check ends it with an error.
 */
import { memoryStore } from "nevertwice/stores/memory";
import { storeCases } from "nevertwice/testing";
import { keepPromises } from "./smoke/promises.js";

const promises = await keepPromises();
const cases = await runStoreCases();
if (cases === 0) throw new Error("no store case was run");
console.log(`${promises} promises, ${cases} store cases`);

/** Runs the published cases at once and in real time, without those that move the clock. */
async function runStoreCases() {
  const asked = storeCases(() => memoryStore()).map(({ run }) => run());
  return (await Promise.all(asked)).filter((answer) => answer === undefined).length;
}
