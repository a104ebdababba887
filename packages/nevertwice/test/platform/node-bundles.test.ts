/** Tests applications on a SQLite file that were bundled for Node, by the ways of docs/bundlers.md. Needs the build. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const WORKER = fileURLToPath(new URL("../../dist/stores/sqlite/worker.cjs", import.meta.url));
/** The drivers are compiled code, which no bundle contains. */
const DRIVERS = [/^node:/, "better-sqlite3", "@photostructure/sqlite"];
const NEVERTWICE = [/^nevertwice(\/|$)/];

const APP = `
import { createGuard } from "nevertwice";
import { sqliteStore } from "nevertwice/stores/sqlite";

async function main() {
  const store = sqliteStore({ file: process.argv[2] });
  const guard = createGuard({ store, storeTimeoutMs: 60_000, leaseMs: 200_000 });
  const { status, error } = await guard.tryRun({ operation: "charge", key: "k" }, () => 1);
  console.log(JSON.stringify({ status, code: error?.code, retryable: error?.retryable, message: error?.message }));
  await guard.close();
  await store.close();
}
main();
`;

let folder: string;
beforeAll(async () => {
  // Inside the repository, so that a bundle finds the packages that it left out.
  await mkdir(`${ROOT}.cache`, { recursive: true });
  folder = await mkdtemp(`${ROOT}.cache/bundles-`);
  await writeFile(`${folder}/app.mjs`, APP);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Bundle {
  readonly format: "cjs" | "esm";
  readonly external: (string | RegExp)[];
  readonly withWorker?: boolean;
}

/** Bundles the application into a folder of its own, runs it there, and returns what it printed. */
async function run(name: string, { format, external, withWorker = false }: Bundle): Promise<unknown> {
  const worker = withWorker ? { "sqlite/worker": WORKER } : undefined;
  const build = await rolldown({
    input: { app: `${folder}/app.mjs`, ...worker },
    platform: "node",
    logLevel: "silent",
    external: [...DRIVERS, ...external],
  });
  const extension = format === "cjs" ? "cjs" : "mjs";
  const files = { entryFileNames: `[name].${extension}`, chunkFileNames: `[name].${extension}` };
  await build.write({ dir: `${folder}/${name}`, format, ...files });
  await build.close();
  const child = spawn(process.execPath, [`${folder}/${name}/app.${extension}`, `${folder}/${name}.db`]);
  const text = { out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    text.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    text.err += chunk;
  });
  const [code] = await once(child, "close");
  expect([code, text.err]).toEqual([0, ""]);
  return JSON.parse(text.out);
}

describe.concurrent("a bundle for Node with a store on a SQLite file", { timeout: 120_000 }, () => {
  test.each(["cjs", "esm"] as const)("as %s works with nevertwice left out of it", async (format) => {
    expect(await run(`external-${format}`, { format, external: NEVERTWICE })).toMatchObject({
      status: "ran",
    });
  });

  test("as CommonJS works with the worker as a second entry", async () => {
    const ran = await run("two-entries", { format: "cjs", external: [], withWorker: true });
    expect(ran).toMatchObject({ status: "ran" });
  });

  test.each(["cjs", "esm"] as const)(
    "as %s without the worker says what to do, and that no retry helps",
    async (format) => {
      expect(await run(`alone-${format}`, { format, external: [] })).toEqual({
        status: "unavailable",
        code: "options-invalid",
        retryable: false,
        message: expect.stringMatching(/worker thread cannot be loaded: .*mark nevertwice as external/),
      });
    },
  );
});
