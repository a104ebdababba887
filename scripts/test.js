/**
 * `npm test`: build, checks, tests. `npm run test:quick` answers a contributor sooner: types, style, and the tests that
 * start no server. The last line says how many passed and failed; in CI a skipped test fails too.
 */
import { parseArgs } from "node:util";
import { runQuickSteps, runSteps } from "./steps.js";
import { isFailure, tallyLine } from "./tally.js";
import { runVitest } from "./vitest.js";

const { values } = parseArgs({ options: { quick: { type: "boolean", default: false } } });

const steps = await (values.quick ? runQuickSteps() : runSteps());
const tests = await (values.quick ? runVitest(["--project", "tests"], { QUICK_TESTS: "true" }) : runVitest());
const tally = { ...tests, passed: steps.passed + tests.passed, failed: steps.failed + tests.failed };

process.exitCode = isFailure(tally, process.env.CI === "true") ? 1 : 0;
console.log(tallyLine(tally));
