/** The other process of a scenario: calls one key once, and says when its work began and what it was answered. */

import { setTimeout as sleep } from "node:timers/promises";
import { shiftClock } from "./clock-shift.js";
import { openLedger } from "./ledger.js";
import { loadLibrary } from "./libraries.js";

const {
  library: name,
  target,
  ledgerFile,
  clockMs,
  options,
  request,
  effect,
  workMs,
} = JSON.parse(process.argv[2]);
if (clockMs !== undefined) shiftClock(clockMs);

const library = await loadLibrary(name);
const ledger = openLedger(ledgerFile);
const subject = await library.open({ ...options, target: { ...target, directUrl: target.url } });
const answer = await subject.call(request, async () => {
  ledger.record(effect);
  process.send({ kind: "began" });
  // Without a time it never ends: the scenario kills the process.
  await (workMs === undefined ? new Promise(() => setInterval(() => {}, 1_000)) : sleep(workMs));
  return effect;
});
process.send({ kind: "answered", answer });
await subject.close();
process.disconnect();
