/** Checks the exports map: every target has a source, and every file that users import is exported. */
import { SRC, sourcesOf } from "./source.js";

const MANIFEST = "packages/nevertwice/package.json";

/** Parts of stores: statements, and code that stores share. */
const PART_OF_A_STORE =
  /-(sql|lua)\.ts$|\/(batch|binding-source|call-queue|call-sharing|claim-sharing|compare-and-set|driver-errors|flight-room|in-turn|listing|ready-in-time|watchers)\.ts$/;

/** One file for each framework; the rest of the folder is shared code. */
const ADAPTER = /^http\/(express|fastify|fetch|form|graphql|hono|koa|lambda|nest|node|trpc)\.ts$/;

/** One file for each broker, kind of event, or agent protocol. */
const EVENTS =
  /^events\/(a2a|bullmq|cloudevents|kafka|lambda-batch|mcp|nats|rabbitmq|redis-streams|sqs|webhook)\.ts$/;

/** One file for each store of reservations. */
const RESERVATIONS = /^reservations\/(memory|sqlite|postgres|mysql|open)\.ts$/;

/** One file for each deliverer, and the outbox of a URL. */
const OUTBOX = /^outbox\/(http|nats|open|rabbitmq)\.ts$/;

/** One file for each query builder. */
const TRANSACTION = /^transaction\/(drizzle|knex|kysely|prisma)\.ts$/;

/** Subpaths for functions other than the guard; the rest of the folder belongs to the guard. */
const FUNCTION_DOOR = /^functions\/(protect|flapping)\.ts$/;

/** @param {readonly import("./source.js").File[]} files */
export function exportsProblems(files) {
  const manifest = files.find(({ path }) => path === MANIFEST);
  if (manifest === undefined) return [`${MANIFEST} is missing`];
  const targets = targetsOf(JSON.parse(manifest.text).exports ?? {});
  const sources = sourcesOf(files).map(({ path }) => path);
  const problems = [];

  for (const [subpath, target] of targets) {
    if (target === "./package.json") continue;
    if (!target.startsWith("./dist/"))
      problems.push(`${MANIFEST}: ${subpath} leads to ${target}, outside dist`);
    else if (!sources.includes(sourceOf(target)))
      problems.push(`${MANIFEST}: ${subpath} leads to ${target}, which has no source ${sourceOf(target)}`);
  }
  const exported = new Set(targets.map(([, target]) => sourceOf(target)));
  for (const path of sources)
    if (isFrontDoor(path) && !exported.has(path))
      problems.push(`${path} is imported by users, and ${MANIFEST} does not export it`);
  return problems;
}

/**
 * Whether users import the file: `index.ts` of the package or of a folder, a store, an adapter, and other subpaths.
 *
 * @param {string} path
 */
export function isFrontDoor(path) {
  const inside = path.slice(SRC.length);
  if (
    [/^([^/]+\/)?index\.ts$/, ADAPTER, EVENTS, FUNCTION_DOOR, OUTBOX, RESERVATIONS, TRANSACTION].some(
      (door) => door.test(inside),
    )
  )
    return true;
  return /^stores\/[^/]+\.ts$/.test(inside) && !PART_OF_A_STORE.test(inside);
}

/** @param {string} target */
function sourceOf(target) {
  return target.replace(/^\.\/dist\/(web\/)?/, SRC).replace(/\.c?js$/, ".ts");
}

/**
 * @param {Record<string, string | Record<string, string>>} map
 * @returns {readonly (readonly [subpath: string, target: string])[]}
 */
function targetsOf(map) {
  return Object.entries(map).flatMap(([subpath, target]) =>
    typeof target === "string"
      ? [/** @type {const} */ ([subpath, target])]
      : Object.values(target).map((file) => /** @type {const} */ ([subpath, file])),
  );
}
