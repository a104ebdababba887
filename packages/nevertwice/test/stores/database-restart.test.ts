/** Tests processes that follow the documentation word for word, while the database that they use is restarted. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, type TestContext, test } from "vitest";
import { startMariadb } from "../services/mariadb.ts";
import { startFor } from "../services/services.ts";
import { STORES } from "../stores-doc.ts";

/** A folder in which packages resolve as they do for an application. */
const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

/** The example under a heading, unchanged. */
function exampleUnder(heading: string): string {
  const [, example] = /```ts[^\n]*\n([\s\S]*?)```/.exec(STORES.split(`\n## ${heading}\n`)[1] ?? "") ?? [];
  if (example === undefined) throw new Error(`${heading} has no example`);
  return example;
}

/** Runs a key for each line that it reads, and prints the result. */
const SERVE = `
import { createInterface } from "node:readline";
console.log("ready");
for await (const key of createInterface({ input: process.stdin }))
  console.log((await guard.tryRun({ operation: "o", key }, () => "done")).status);
process.exit(0);
`;

interface Child {
  readonly process: ChildProcess;
  ask(key: string): Promise<string>;
}

async function startChild(context: TestContext, program: string, env: NodeJS.ProcessEnv): Promise<Child> {
  const folder = await mkdtemp(`${PACKAGE}/.restart-`);
  context.onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(`${folder}/program.mjs`, program);
  const child = spawn(process.execPath, [`${folder}/program.mjs`], {
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  context.onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const ended = once(child, "exit").then(([code]) => `ended with ${code}`);
    return Promise.race([lines.next().then(({ value }) => String(value)), ended]);
  };
  expect(await next()).toBe("ready");
  return {
    process: child,
    ask(key) {
      child.stdin.write(`${key}\n`);
      return next();
    },
  };
}

const PROGRAMS: Readonly<Record<string, readonly [heading: string, variable: string, rest: string]>> = {
  "the example of MySQL": ["MySQL", "MYSQL_URL", ""],
  "the example of openStore": ["By a URL", "STORE_URL", ""],
};

for (const [name, [heading, variable, rest]] of Object.entries(PROGRAMS)) {
  test(`restart: ${name} survives a restart of the database and continues to work`, {
    timeout: 120_000,
  }, async (context) => {
    const server = await startFor(context, () => startMariadb());
    // The examples close what they opened, so the test's code runs before that.
    const [opening = ""] = exampleUnder(heading).split("\nawait guard.close();");
    const child = await startChild(context, opening + rest + SERVE, { [variable]: server.url });
    expect(await child.ask("before")).toBe("ran");
    await server.kill();
    expect(await child.ask("meanwhile")).toBe("unavailable");
    await server.restart();
    await expect.poll(() => child.ask("after"), { timeout: 60_000 }).toMatch(/^(ran|replayed)$/);
    expect(await child.ask("before")).toBe("replayed");
    expect(child.process.exitCode).toBeNull();
  });
}
