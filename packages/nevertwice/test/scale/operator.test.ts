/**
 * Tests what operators ask of a store with very many keys: each call is short, and ten of them at once hardly slow payments. Then
 * the server starts and lists its access tokens on the same store. `NEVERTWICE_SCALE_KEYS` sets the number of keys.
 */
import { execFile, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { count, medianOf, ms, report } from "./figures.ts";
import { fill, NAMESPACE } from "./filling.ts";
import { IS_FULL, sizeOf } from "./sizes.ts";
import { MYSQL, openSubject, POSTGRES, REDIS, SQLITE } from "./subjects.ts";

const SERVER = fileURLToPath(new URL("../../../server/dist/cli/main.js", import.meta.url));
/** The store's limit for a statement, and what its answer takes on a busy machine. */
const LONGEST_CALL_MS = 5_000;

const GIVEN_KEYS = process.env.NEVERTWICE_SCALE_KEYS;
const { keys, redisKeys, callers, lanes, windows, windowMs, worst } = sizeOf("operator");

/** What operators ask of one page, one count or one look; by what the report calls it. */
function operatorCalls(
  guard: Guard,
  store: Store,
): Readonly<Record<string, () => Promise<unknown> | undefined>> {
  return {
    "a list": () => guard.list({}),
    "a list of an operation that nothing has": () => guard.list({ operation: "nothing" }),
    "a list of a scope": () => guard.list({ scope: "customer-7" }),
    "a list of one key": () => guard.list({ key: "order-7" }),
    "a list of running keys": () => guard.list({ state: "pending" }),
    listUnknown: () => guard.listUnknown({}),
    undecided: () => guard.undecided(),
    namespaces: () => store.namespaces?.({ limit: 50 }),
    overdue: () => store.overdue?.({ limit: 10_000 }),
    "the purge's look": () => store.purge(500),
  };
}

async function timed(call: () => Promise<unknown> | undefined): Promise<number> {
  const startedAt = performance.now();
  await call();
  return performance.now() - startedAt;
}

/** Pays on all lanes for a window, and returns the 99th percentile of how long a payment took. */
async function p99OfPayments(guard: Guard): Promise<number> {
  const took: number[] = [];
  const until = performance.now() + windowMs;
  const pay = () => guard.run({ operation: "pay", key: randomUUID() }, () => "paid");
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      do took.push(await timed(pay));
      while (performance.now() < until);
    }),
  );
  return took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? Number.NaN;
}

/** Asks without a pause on several lanes, until it is stopped. */
function keepAsking(calls: readonly (() => Promise<unknown> | undefined)[]): () => Promise<void> {
  let isOver = false;
  const asking = Array.from({ length: callers }, async (_, lane) => {
    // A call that waits too long for its turn is refused.
    for (let each = lane; !isOver; each++) await calls[each % calls.length]?.()?.catch(() => {});
  });
  return async () => {
    isOver = true;
    await Promise.all(asking);
  };
}

async function serverCommand(url: string, ...args: readonly string[]): Promise<number> {
  return timed(() => promisify(execFile)(process.execPath, [SERVER, ...args, "--store", url]));
}

/** How long the server takes until it listens on an address that other machines reach. */
function serverStart(url: string): Promise<number> {
  return timed(
    () =>
      new Promise((resolve, reject) => {
        const server = spawn(process.execPath, [SERVER, "serve", "--store", url, "--listen", "0.0.0.0:0"]);
        let said = "";
        const listen = (data: Buffer) => {
          said += data;
          if (said.includes("http://")) server.kill("SIGKILL");
        };
        server.stdout.on("data", listen);
        server.stderr.on("data", listen);
        server.on("exit", (_, signal) =>
          signal === "SIGKILL" ? resolve(undefined) : reject(new Error(said)),
        );
      }),
  );
}

/** What the server and its commands take on the store, with the names of the report. */
async function serverFigures(url: string): Promise<readonly string[]> {
  return [
    `access create ${ms(await serverCommand(url, "access", "create", "--name", "shop"))}`,
    `the server's start on a public address ${ms(await serverStart(url))}`,
    `access list ${ms(await serverCommand(url, "access", "list"))}`,
  ];
}

describe("operators ask a store with very many keys", () => {
  for (const subject of [SQLITE, POSTGRES, MYSQL, REDIS])
    test(`on ${subject.name}`, async (context) => {
      const url = await subject.create(context);
      const store = await openSubject(context, url);
      const records = Math.min(
        Number(GIVEN_KEYS ?? keys),
        subject === REDIS ? redisKeys : Number.POSITIVE_INFINITY,
      );
      await fill({ store, url, records, isExpired: false, isVaried: true });
      const guard = createGuard({ store, namespace: NAMESPACE, purgeEveryMs: 0 });
      context.onTestFinished(async () => void (await guard.close()));

      const calls = operatorCalls(guard, store);
      const took: string[] = [];
      for (const [name, call] of Object.entries(calls)) {
        const tookMs = await timed(call);
        expect(tookMs, name).toBeLessThan(LONGEST_CALL_MS);
        took.push(`${name} ${ms(tookMs)}`);
      }
      took.push(`forget of a scope ${ms(await timed(() => guard.forget({ scope: "customer-5" })))}`);
      if (IS_FULL || subject === POSTGRES) took.push(...(await serverFigures(url)));

      const calm: number[] = [];
      const beside: number[] = [];
      for (let window = 0; window < windows; window++) {
        calm.push(await p99OfPayments(guard));
        const stop = keepAsking(Object.values(calls));
        beside.push(await p99OfPayments(guard));
        await stop();
      }
      const ratio = medianOf(beside) / medianOf(calm);
      await report(store, {
        trial: "Operators beside payments",
        figures: `${count(records)} keys; ${took.join(", ")}; payments on ${lanes} lanes have a p99 of ${ms(medianOf(calm))} alone and ${ms(medianOf(beside))} beside ${callers} operators who ask without a pause (median of ${windows} windows each): ${ratio.toFixed(2)} times`,
      });
      expect(ratio).toBeLessThan(worst);
    });
});
