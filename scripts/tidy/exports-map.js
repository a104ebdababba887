/** The exports map: every target has a source, and every front door is exported. */
import { SRC, sourcesOf } from "./source.js";

const MANIFEST = "packages/nevertwice/package.json";

/** Parts of a store that its one file uses: statements, and what stores share. */
const PART_OF_A_STORE = /-(sql|lua)\.ts$|\/batch\.ts$/;

/** One file a framework; the rest of the folder is what they share. */
const ADAPTER = /^http\/(express|fastify|fetch|hono|koa|lambda|nest|node)\.ts$/;

/** One file a broker, a kind of event, or a protocol of agents. */
const EVENTS =
  /^events\/(a2a|bullmq|cloudevents|kafka|lambda-batch|mcp|nats|rabbitmq|redis-streams|sqs|webhook)\.ts$/;

/** One file a store of reservations. */
const RESERVATIONS = /^reservations\/(memory|sqlite|postgres|mysql|open)\.ts$/;

/** Doors for functions that stand beside the guard; the rest of the folder is the guard's own. */
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
      problems.push(`${path} is a front door, and ${MANIFEST} does not export it`);
  return problems;
}

/**
 * `index.ts` of the package or of a folder, every store, every adapter and every door for functions.
 *
 * @param {string} path
 */
export function isFrontDoor(path) {
  const inside = path.slice(SRC.length);
  if (
    [/^([^/]+\/)?index\.ts$/, ADAPTER, EVENTS, FUNCTION_DOOR, RESERVATIONS].some((door) => door.test(inside))
  )
    return true;
  return /^stores\/[^/]+\.ts$/.test(inside) && !PART_OF_A_STORE.test(inside);
}

/** @param {string} target */
function sourceOf(target) {
  return target.replace("./dist/", SRC).replace(/\.js$/, ".ts");
}

/**
 * @param {Record<string, string | Record<string, string>>} map
 * @returns {readonly (readonly [subpath: string, target: string])[]}
 */
function targetsOf(map) {
  return Object.entries(map).flatMap(([subpath, target]) =>
    typeof target === "string"
      ? [/** @type {const} */ ([subpath, target])]
      : Object.values(target)
          .filter((file) => file.endsWith(".js"))
          .map((file) => /** @type {const} */ ([subpath, file])),
  );
}
