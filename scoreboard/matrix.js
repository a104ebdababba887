/** Runs pairs of a library and a scenario, each in a process of its own, some at a time. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { slowness } from "./slowness.js";

const PROGRAM = fileURLToPath(new URL("forked-judge.js", import.meta.url));
/** Most scenarios wait for leases and timeouts most of the time. */
export const AT_ONCE = 8;
/** Beyond the deadline of a scenario: the process itself hangs. */
const LATE_MS = 30_000;
const DEADLINE_MS = 60_000;

/**
 * `urls` are those of the servers, by their names. `onResult` gets each result with its library and scenario. The results
 * are in the order of the pairs.
 */
export async function runMatrix(pairs, { urls, backlog, onResult = () => {} }) {
  const results = [];
  // The longest begin first, so that no core waits for them at the end.
  const waiting = pairs
    .map((pair, index) => ({ ...pair, index }))
    .sort((a, b) => (b.scenario.deadlineMs ?? 0) - (a.scenario.deadlineMs ?? 0));
  async function lane() {
    for (let pair = waiting.shift(); pair !== undefined; pair = waiting.shift()) {
      const { library, scenario, index } = pair;
      const result = await runOne({ library, scenario, index, urls, backlog });
      results[index] = { library, scenario, ...result };
      onResult(results[index]);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return results;
}

async function runOne({ library, scenario, index, urls, backlog }) {
  const reason = library.without?.[scenario.number];
  if (reason !== undefined) return { verdict: "not applicable", evidence: reason, seconds: 0 };
  const folder = await mkdtemp(join(tmpdir(), "nevertwice-scoreboard-"));
  const startedAt = performance.now();
  try {
    const target = await openPlace(library.place, { urls, folder, index });
    const plan = {
      library: library.name,
      scenario: scenario.number,
      target,
      ledgerFile: join(folder, "effects"),
      backlog,
    };
    const result = await runForked(plan, ((scenario.deadlineMs ?? DEADLINE_MS) + LATE_MS) * slowness());
    return { ...result, seconds: (performance.now() - startedAt) / 1_000 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function runForked(plan, deadlineMs) {
  // What libraries print to the standard output is not ours; errors may explain a failure.
  const child = fork(PROGRAM, [JSON.stringify(plan)], {
    stdio: ["ignore", "ignore", "pipe", "ipc"],
    env: { ...process.env, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true" },
  });
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors = (errors + chunk).slice(-4_000);
  });
  let result;
  child.on("message", (message) => {
    result = message;
  });
  const late = setTimeout(() => child.kill("SIGKILL"), deadlineMs);
  const [code, signal] = await once(child, "close");
  clearTimeout(late);
  if (result !== undefined) return { ...result, errors };
  return {
    verdict: "fail",
    evidence: signal === "SIGKILL" ? "the process hung and was ended" : `the process ended with code ${code}`,
    errors,
  };
}

/** A part of a server, or a file, that only this run uses. */
async function openPlace(place, { urls, folder, index }) {
  if (place === undefined) return {};
  if (place === "file") return { file: join(folder, "records.db") };
  if (place === "redis") return { url: `${urls.redis}/${index}` };
  if (place === "dynalite") return { url: urls.dynalite, tableName: `idempotency-${index}` };
  const client = new pg.Client(urls.postgres);
  await client.connect();
  await client.query(`CREATE DATABASE scoreboard_${index}`);
  await client.end();
  const url = new URL(urls.postgres);
  url.pathname = `/scoreboard_${index}`;
  return { url: url.href };
}

/** The settings of the servers that the libraries need, by their names. */
export function serversFor(libraries, pairs) {
  const settings = {
    redis: { databases: String(Math.max(16, pairs.length)) },
    postgres: { max_connections: "400" },
    dynalite: {},
  };
  const places = new Set(libraries.map(({ place }) => place));
  return Object.fromEntries(Object.entries(settings).filter(([name]) => places.has(name)));
}
