/** Builds the library and the server, once for all projects of a run, for the tests that run the built packages. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../..", import.meta.url));

export function setup(): void {
  // `npm test` sets this, because it builds before it starts the tests.
  if (process.env.TESTS_ARE_BUILT === "true") return;
  execFileSync("npm", ["run", "--silent", "build"], { cwd: ROOT, stdio: "inherit" });
  process.env.TESTS_ARE_BUILT = "true";
}
