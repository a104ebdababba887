/** A separate process that uses a store as in the docs, and runs work under the keys that the test sends. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { TestContext } from "vitest";

const ROOT = fileURLToPath(new URL("../../../../../", import.meta.url));

/** Retries while the store is unreachable, as long as the test lasts. */
const WORK = `
import { createInterface } from "node:readline";
let runs = 0;
for await (const key of createInterface({ input: process.stdin })) {
  let answer;
  do answer = await guard.tryRun({ operation: "test", key }, () => ++runs);
  while (answer.status === "unavailable");
  process.stdout.write(JSON.stringify({ key, status: answer.status, value: answer.value }) + "\\n");
}
process.exit(0);
`;

export const BY_URL = `
import { createGuard } from "nevertwice";
import { openStore } from "nevertwice/stores/open";
const store = await openStore(process.env.REDIS_URL);
const guard = createGuard({ store, namespace: "shop" });
`;

/** The example of docs/stores-redis.md that imports this driver, unchanged. */
export async function exampleWith(driver: string): Promise<string> {
  const page = await readFile(`${ROOT}docs/stores-redis.md`, "utf8");
  const found = [...page.matchAll(/^```ts server\n(.*?)^```/gms)].find(([, code = ""]) =>
    code.includes(`from "${driver}"`),
  );
  if (found?.[1] === undefined) throw new Error(`docs/stores-redis.md has no example with ${driver}`);
  return found[1];
}

export interface Process {
  /** Runs the work under this key; resolves when it has run. */
  run(key: string): Promise<{ readonly key: string; readonly status: string; readonly value: unknown }>;
  /** Ends the process. Returns its exit code and its error output. */
  end(): Promise<{ readonly code: number | null; readonly complaints: string }>;
}

export function startProcess(context: TestContext, program: string, url: string): Process {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program + WORK], {
    cwd: ROOT,
    env: { ...process.env, REDIS_URL: url },
  });
  context.onTestFinished(() => void child.kill("SIGKILL"));
  let complaints = "";
  child.stderr.on("data", (chunk) => {
    complaints += chunk;
  });
  child.stdin.on("error", () => {});
  const ended = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async run(key) {
      child.stdin.write(`${key}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error(`the process ended:\n${complaints}`);
      return JSON.parse(value);
    },
    async end() {
      child.stdin.end();
      const [code] = (await ended) as [number | null];
      return { code, complaints };
    },
  };
}
