/** Starts the servers of the tests for the benchmark. They are written in TypeScript, which Node 20 cannot run itself. */
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const SERVICES = fileURLToPath(new URL("../packages/nevertwice/test/services/", import.meta.url));

/**
 * @param {"redis" | "postgres" | "nats"} name
 * @param {Readonly<Record<string, string>>} settings
 * @returns {Promise<{ url: string, stop(): Promise<void> }>}
 */
export async function startServer(name, settings) {
  const { installMissing } = await load("packages.ts");
  await installMissing(["redis-server", "initdb", "postgres", "nats-server"]);
  const { startRedis, startPostgres, startNats } = await load(`${name}.ts`);
  return (startRedis ?? startPostgres ?? startNats)({ settings });
}

/** Installs wrk, which puts the load on an HTTP application. */
export async function installLoad() {
  const { installMissing } = await load("packages.ts");
  await installMissing(["wrk"]);
}

/** @param {string} file */
async function load(file) {
  const { module } = await runnerImport(`${SERVICES}${file}`);
  return /** @type {Record<string, any>} */ (module);
}
