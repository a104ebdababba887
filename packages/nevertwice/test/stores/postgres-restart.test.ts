/** Tests programs that follow the documentation word for word while their database restarts: they keep running. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startPostgres } from "../services/postgres.ts";
import { startFor } from "../services/services.ts";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));

/** The first example under a heading, without the lines that close what it opened. */
function example(page: string, heading: string): string {
  const text = readFileSync(`${ROOT}docs/${page}`, "utf8");
  const section = text.slice(text.indexOf(`\n${heading}\n`));
  const code = /```ts[^\n]*\n(.*?)```/s.exec(section)?.[1];
  if (!text.includes(`\n${heading}\n`) || code === undefined)
    throw new Error(`docs/${page} has no example under ${heading}`);
  return code.replace(/^await \w+\.close\(\);.*$/gm, "");
}

/** Prints a line when it is ready, and another after each statement that an input line makes it run. */
const going = (step: string) => `
const tryUntilDone = async () => {
  for (;;) {
    try {
      return await (${step})();
    } catch (error) {
      if (error.code !== "unavailable") throw error;
    }
  }
};
await tryUntilDone();
console.log("up");
for await (const line of process.stdin) {
  await tryUntilDone();
  console.log("went on");
}`;

const RUN = "() => guard.run({ operation: 'order', key: crypto.randomUUID() }, async () => 'done')";
const WATCH = "\nawait store.watch({ id: 'x', wake() {} });";

const PROGRAMS = {
  "the store's example": example("stores-sql.md", "## Postgres") + WATCH + going(RUN),
  "openStore's example": example("stores.md", "## By a URL") + WATCH + going(RUN),
  "the example of reservations":
    example("reservations-stores.md", "### Postgres") + going("() => reservations.listHeld()"),
  "openReservations' example": example("reservations-stores.md", "### By URL") + going("() => store.now()"),
};

for (const [name, program] of Object.entries(PROGRAMS)) {
  test(`${name} survives a restart of the database`, { timeout: 60_000 }, async (context) => {
    const server = await startFor(context, () => startPostgres({ settings: { fsync: "off" } }));
    const { hostname, port, username, pathname } = new URL(server.url);
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      cwd: ROOT,
      stdio: ["pipe", "pipe", "pipe"],
      env: {
        ...process.env,
        DATABASE_URL: server.url,
        STORE_URL: server.url,
        RESERVATIONS_URL: server.url,
        PGHOST: hostname,
        PGPORT: port,
        PGUSER: username,
        PGDATABASE: pathname.slice(1),
      },
    });
    context.onTestFinished(() => void child.kill("SIGKILL"));
    let said = "";
    child.stderr.on("data", (chunk) => {
      said += chunk;
    });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const exited = once(child, "exit").then(() => ({ value: `it ended: ${said}` }));
    const next = async () => (await Promise.race([lines.next(), exited])).value ?? `it ended: ${said}`;
    // An example may print other lines first.
    let first = await next();
    while (/^\d+$/.test(first)) first = await next();
    expect(first).toBe("up");
    await server.kill();
    await server.restart();
    child.stdin.write("go on\n");
    expect(await next()).toBe("went on");
  });
}
