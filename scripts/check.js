/** `npm run check`: everything that can be checked without running a test. */
import { runSteps } from "./steps.js";

const { failed } = await runSteps();
process.exitCode = failed === 0 ? 0 : 1;
