/** Starts the servers of the tests for the benchmark. They are written in TypeScript, which Node 20 cannot run itself. */
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

/** @typedef {Readonly<Partial<Record<"redis" | "redis-cluster" | "postgres" | "mariadb" | "nats" | "dynalite", Readonly<Record<string, string>>>>>} Servers settings by name */
/** @typedef {Readonly<Record<string, string>>} Urls of the servers, by name */

const SERVICES = fileURLToPath(new URL("../packages/nevertwice/test/services/", import.meta.url));

const PROGRAMS = ["redis-server", "initdb", "postgres", "nats-server"];
const STARTS = [
  "startRedis",
  "startRedisCluster",
  "startPostgres",
  "startMariadb",
  "startNats",
  "startDynalite",
];
const MARIADB = ["mariadb-install-db", "mariadbd"];

/**
 * Starts the servers, and stops them after their use.
 *
 * @template T
 * @param {Servers} servers
 * @param {(urls: Urls) => Promise<T>} use
 */
export async function withServers(servers, use) {
  /** @type {{ name: string, url: string, stop(): Promise<void> }[]} */
  const started = [];
  try {
    for (const [name, settings] of Object.entries(servers))
      started.push({ name, ...(await startServer(name, settings)) });
    return await use(Object.fromEntries(started.map(({ name, url }) => [name, url])));
  } finally {
    for (const { stop } of started) await stop();
  }
}

/**
 * @param {string} name
 * @param {Readonly<Record<string, string>>} settings
 */
async function startServer(name, settings) {
  const { installMissing } = await load("packages.ts");
  await installMissing([...PROGRAMS, ...(name === "mariadb" ? MARIADB : [])]);
  const loaded = await load(`${name}.ts`);
  const start = STARTS.map((each) => loaded[each]).find((found) => found !== undefined);
  return start({ settings });
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
