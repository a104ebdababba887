/** Tests `nevertwice prove`: it passes on stores that are right, and finds bugs that are planted in one. Needs the build. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openStore } from "nevertwice/stores/open";
import { describe, expect, it, type TestContext } from "vitest";
import { sharedUrl } from "../../nevertwice/test/services/services.ts";
import { type FaultKind, networkFaults, PROCESS_FAULTS } from "../cli/prove/fault-kinds.ts";
import { startProxy } from "../cli/prove/proxy.ts";
import { removeKeys } from "../cli/prove/removal.ts";
import { totalsFor } from "../cli/prove/report.ts";
import { freshNamespace, type RunReport, runRounds } from "../cli/prove/rounds.ts";
import { boundsFor, repetitionsThrough } from "../cli/prove.ts";
import { FOLDER, run } from "./cli-process.ts";

const PROGRAM = fileURLToPath(new URL("../dist/cli/prove/worker-main.js", import.meta.url));
const OPENER = new URL("prove/planted-opener.js", import.meta.url).href;
const SIZE = { processes: 2, lanes: 4, keysPerRound: 6, callsPerRound: 1_200, roundMs: 700, leaseMs: 200 };

interface ProvedPlan {
  readonly url: string;
  readonly faults?: readonly string[];
  readonly planted?: string;
}

/** As many rounds as there are kinds of faults, and one more; with `planted` as many as it takes, up to a limit. */
async function proved(
  { onTestFinished }: TestContext,
  { url, faults, planted }: ProvedPlan,
): Promise<RunReport & { readonly left: number }> {
  const proxy = url.startsWith("sqlite:") ? undefined : await startProxy(url);
  onTestFinished(() => proxy?.stop());
  const kinds: readonly FaultKind[] = [
    ...PROCESS_FAULTS,
    ...(proxy === undefined ? [] : networkFaults(proxy)),
  ].filter(({ name }) => faults === undefined || faults.includes(name));
  const most = (kinds.length + 1) * (planted === undefined ? 1 : 30);
  const enough = new AbortController();
  let rounds = 0;
  const report = await runRounds({
    url: proxy?.url ?? url,
    seconds: 600,
    seed: 1,
    faults: kinds,
    bounds: boundsFor(url),
    mayBeRepeated: proxy && repetitionsThrough(proxy),
    namespace: freshNamespace(),
    program: PROGRAM,
    size: SIZE,
    signal: enough.signal,
    ...(planted !== undefined && { opener: OPENER, env: { NEVERTWICE_PLANTED: planted } }),
    onRound({ tallies }) {
      const isFound = planted !== undefined && totalsFor(tallies).violations > 0;
      if (++rounds >= most || isFound) enough.abort();
    },
  });
  const store = await openStore(url, { migrate: false });
  try {
    return { ...report, tallies: report.tallies, left: await removeKeys(store, report.keys, SIZE.leaseMs) };
  } finally {
    await store.close();
  }
}

async function sqliteUrl(name: string): Promise<string> {
  const url = `sqlite:${join(FOLDER, `${name}.db`)}`;
  const store = await openStore(url);
  await store.read("0".repeat(64));
  await store.close();
  return url;
}

async function expectRight(report: Awaited<ReturnType<typeof proved>>, kinds: number): Promise<void> {
  const { tallies, left, covered } = report;
  expect(
    tallies.flatMap(({ fault, violations }) =>
      violations.flatMap(({ explanation }) => [fault, ...explanation]),
    ),
  ).toEqual([]);
  expect(tallies).toHaveLength(kinds);
  expect(totalsFor(tallies).calls).toBeGreaterThan(0);
  expect(left).toBe(0);
  expect(covered.size).toBeGreaterThan(2);
}

describe.concurrent("a store that is right passes under every fault, and nothing is left in it", {
  timeout: 240_000,
}, () => {
  it("SQLite", async (context) => {
    await expectRight(await proved(context, { url: await sqliteUrl("right") }), 3);
  });
  it("Redis", async (context) => {
    await expectRight(await proved(context, { url: sharedUrl(context, "redis") }), 10);
  });
  it("Postgres", async (context) => {
    const url = sharedUrl(context, "postgres");
    await (await openStore(url)).close();
    await expectRight(await proved(context, { url }), 10);
  });
});

describe.concurrent("a planted bug is found under the fault that it is about", { timeout: 240_000 }, () => {
  for (const [fault, planted] of [
    ["kill", "a process that replaces another takes over what runs"],
    ["pause", "an owner trusts a clock that stood still"],
    ["cut-reply", "a claim without an answer counts as granted"],
    ["late-request", "a slow claim is sent again under a new token"],
    ["refuse", "a claim without an answer counts as granted"],
  ] as const)
    it(`${fault}: ${planted}`, async (context) => {
      const url = sharedUrl(context, "postgres");
      await (await openStore(url)).close();
      const { tallies } = await proved(context, { url, faults: [fault], planted });
      expect(totalsFor(tallies).violations).toBeGreaterThan(0);
    });
});

describe.concurrent("nevertwice prove", { timeout: 240_000 }, () => {
  it("says what it will do, and reports what it did", async () => {
    const url = await sqliteUrl("cli");
    const { code, out, err } = await run(["prove", url, "--seconds", "1", "--seed", "7"]);
    expect([code, err]).toEqual([0, []]);
    const text = out.join("\n");
    expect(text).toMatch(
      /writes at most \d+ keys in the namespace nevertwice-prove-[0-9a-f]{12}, and removes them/,
    );
    expect(text).toContain("Seed 7.");
    expect(text).toMatch(/^ {2}power-loss +yes/m);
    expect(out.at(-1)).toMatch(/^passed: 0 violations in [\d,]+ calls about \d+ keys: .*\(3\/n\)$/);
  });

  it("prints an event when it starts, and an envelope", async () => {
    const url = await sqliteUrl("json");
    const { code, out } = await run(["prove", url, "--seconds", "1", "--json"]);
    expect(code).toBe(0);
    const [started, envelope] = out.map((line) => JSON.parse(line));
    expect(started).toMatchObject({ event: "started", store: url, seconds: 1 });
    expect(envelope).toMatchObject({ command: "prove", ok: true, exit: 0 });
    const { calls, bound, violations, notRemoved, doctor } = envelope.data;
    expect([violations, notRemoved, bound]).toEqual([0, 0, 3 / calls]);
    expect(doctor).toMatchObject({ rung: "power-loss" });
  });

  it("refuses a store that only one process can call, a file that is missing, and a run that is too long", async () => {
    const missing = join(FOLDER, "missing.db");
    expect(await run(["prove", "memory:"])).toMatchObject({ code: 2 });
    expect(await run(["prove", `sqlite:${missing}`])).toMatchObject({ code: 2 });
    expect(existsSync(missing)).toBe(false);
    expect(await run(["prove", await sqliteUrl("long"), "--seconds", "3601"])).toMatchObject({ code: 2 });
  });

  it("reports with code 3 that the store does not answer", async () => {
    expect(await run(["prove", "redis://127.0.0.1:1", "--seconds", "1"])).toMatchObject({ code: 3 });
    expect(await run(["prove", "postgres://127.0.0.1:1/none", "--seconds", "1"])).toMatchObject({ code: 3 });
  });
});
