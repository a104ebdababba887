/** The process of one library under one scenario. */
import { judge } from "./judge.js";
import { loadLibrary } from "./libraries.js";
import { scenarios } from "./scenarios.js";

const { library, scenario, ...rest } = JSON.parse(process.argv[2]);
// A library that rejects a promise nobody awaits must not end the process before its verdict; the page names it.
let unhandled;
process.on("unhandledRejection", (error) => {
  unhandled = String(error?.message ?? error).split("\n")[0];
});
const result = await judge({
  library: await loadLibrary(library),
  scenario: scenarios.find(({ number }) => number === scenario),
  ...rest,
});
process.send({ ...result, ...(unhandled && { unhandled }) }, () => process.exit());
