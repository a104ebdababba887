/** Checks the layer rule: core imports only core, no store imports a surface, and no surface imports a store. */
import { importsOf, resolveRelative, SRC, sourcesOf } from "./source.js";

const ANYTHING = "*";

/** The code of stores that knows databases and not claims: the transactions of reservations use it. */
const PLUMBING = [
  "stores/batch",
  "stores/in-turn",
  "stores/open",
  "stores/open/",
  "stores/postgres/",
  "stores/sqlite/",
  "stores/mysql/",
];

/** How events are published with an id, and the clock of a Postgres server: the outbox uses both. */
const PUBLISHING = ["events/nats/publish-once", "events/rabbitmq/publish-once", "stores/postgres-sql"];

/**
 * What a folder may import other than itself; `stores/open` allows that one file, `stores/open/` the files in the folder.
 *
 * @type {Readonly<Record<string, readonly string[]>>}
 */
const MAY_IMPORT = {
  core: [],
  stores: ["core", "platform/import-module"],
  functions: ["core", "transaction"],
  http: ["core"],
  claims: ["core"],
  client: ["core"],
  events: ["core"],
  pipeline: ["core", "platform/import-module"],
  platform: [],
  outbox: ["core", "transaction", "sealing", ...PLUMBING, ...PUBLISHING],
  reservations: ["core", "transaction/inside", "transaction/sqlite", ...PLUMBING],
  saga: ["core"],
  sealing: ["core"],
  telemetry: ["core"],
  transaction: ["core"],
  env: ["core", "functions", "stores/open"],
  testing: [ANYTHING],
};

/** The core can be simulated, and runs on every platform, because it imports nothing else from outside. */
const CORE_OUTSIDE = ["#platform"];

/** @param {readonly import("./source.js").File[]} files */
export function layerProblems(files) {
  const problems = [];
  for (const file of sourcesOf(files)) {
    const layer = layerOf(file.path);
    // The front door re-exports from every layer.
    if (layer === "index.ts") continue;
    if (!(layer in MAY_IMPORT)) {
      problems.push(`${file.path}: the folder ${layer} has no layer rule; add one in scripts/tidy/layers.js`);
      continue;
    }
    for (const { specifier, line } of importsOf(file)) {
      const reason = refusal(file.path, layer, specifier);
      if (reason !== undefined) problems.push(`${file.path}:${line}: ${reason}`);
    }
  }
  return problems;
}

/**
 * @param {string} path
 * @param {string} layer
 * @param {string} specifier
 */
function refusal(path, layer, specifier) {
  const target = resolveRelative(path, specifier);
  if (target === undefined) {
    if (layer !== "core" || CORE_OUTSIDE.includes(specifier)) return undefined;
    return `core imports ${specifier}; it may import itself and ${CORE_OUTSIDE.join(", ")}`;
  }
  if (!target.startsWith(SRC)) return `${layer} imports ${specifier}, which lies outside src`;
  const targetLayer = layerOf(target);
  if (targetLayer === layer) return undefined;
  const allowed = MAY_IMPORT[layer] ?? [];
  const inside = target.slice(SRC.length).replace(/\.ts$/, "");
  if (allowed.some((name) => name === ANYTHING || name === targetLayer || isWithin(inside, name)))
    return undefined;
  return `${layer} imports ${inside}; it may import ${["itself", ...allowed].join(", ")}`;
}

/**
 * @param {string} inside
 * @param {string} name
 */
function isWithin(inside, name) {
  return name.endsWith("/") ? inside.startsWith(name) : inside === name;
}

/** @param {string} path */
function layerOf(path) {
  return path.slice(SRC.length).split("/")[0] ?? "";
}
