/**
 * Tests the models of reservations, searched to the end by Spin: what they promise holds in every state, and for each of their
 * twins, which leave one rule out, Spin finds a run that breaks the promise. So neither is true of nothing.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { find, installMissing, NotInstalled } from "../services/packages.ts";

const MODELS = fileURLToPath(new URL("../../../../models/", import.meta.url));
const run = promisify(execFile);
const TIMEOUT_MS = 180_000;

interface Model {
  readonly properties: readonly string[];
  /** Of these, what must come to pass in the end, as long as nobody is stopped forever. */
  readonly eventual?: readonly string[];
  /** Other sizes that hold too. */
  readonly variants?: readonly string[];
  /** Which properties each twin breaks. */
  readonly twins: Readonly<Record<string, readonly string[]>>;
}

const COVERED: Readonly<Record<string, Model>> = {
  commitment: {
    properties: ["single_resolution", "confirmed_inside_window", "absorption", "instants_in_order"],
    twins: {
      RE_RESOLUTION: ["single_resolution", "absorption", "confirmed_inside_window"],
      AT_BOUNDARY: ["confirmed_inside_window"],
      EARLY_EXPIRY: ["instants_in_order"],
      UNLOCKED: ["single_resolution", "absorption"],
    },
  },
  "duplicate-prevention": {
    properties: ["single_recording", "eventual_expiry"],
    eventual: ["eventual_expiry"],
    twins: {
      EXTENDED: ["single_recording", "eventual_expiry"],
      AT_BOUNDARY: ["single_recording"],
      EARLY_PURGE: ["single_recording"],
    },
  },
  reservations: {
    properties: ["at_most_one_effect", "same_answer", "recorded_is_answered", "nobody_waits_forever"],
    eventual: ["nobody_waits_forever"],
    variants: ["HISTORY=1"],
    twins: {
      EARLY_EVICTION: ["recorded_is_answered", "at_most_one_effect", "same_answer"],
      OUTSIDE: ["at_most_one_effect", "same_answer"],
      FORGOTTEN_REJECTION: ["same_answer"],
      UNBOUND: ["same_answer"],
      UNLOCKED: ["at_most_one_effect", "same_answer"],
      LOST_LOCK: ["nobody_waits_forever"],
    },
  },
  capacity: {
    properties: ["conserved", "never_oversold", "never_thrown"],
    twins: {
      EXPIRED_TWICE: ["conserved", "never_thrown"],
      CLAMPED: ["never_oversold"],
      OVERSOLD: ["never_oversold"],
      KEPT_REST: ["conserved"],
    },
  },
};

let folder: string;
let missing: string | undefined;
let spin: string;
let cc: string;

beforeAll(async () => {
  await installMissing(["spin", "cc"]);
  folder = await mkdtemp(join(tmpdir(), "nevertwice-models-"));
  try {
    spin = find("spin");
    cc = find("cc");
  } catch (error) {
    if (!(error instanceof NotInstalled)) throw error;
    missing = error.message;
  }
}, 600_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

type Verify = (property: string) => Promise<{ readonly words: string; readonly trail: string | undefined }>;

/** A verifier of the model, compiled in a folder of its own. */
async function verifierOf(name: string, define: string): Promise<Verify> {
  const cwd = await mkdtemp(join(folder, "model-"));
  const defines = define === "" ? [] : [`-D${define}`];
  await run(spin, [...defines, "-a", join(MODELS, `${name}.pml`)], { cwd });
  await run(cc, ["-O0", "-DMEMLIM=2048", "-DNFAIR=3", "-o", "pan", "pan.c"], { cwd });
  return async (property) => {
    const fair = COVERED[name]?.eventual?.includes(property) ? ["-f"] : [];
    const { stdout, stderr } = await run(
      join(cwd, "pan"),
      ["-a", ...fair, "-m1000000", "-w20", "-N", property],
      {
        cwd,
        maxBuffer: 64 << 20,
      },
    );
    const trail = await readFile(join(cwd, `${name}.pml.trail`), "utf8").catch(() => undefined);
    await rm(join(cwd, `${name}.pml.trail`), { force: true });
    return { words: stdout + stderr, trail };
  };
}

/** What no run of the model's processes ever came to; they go on forever, so their ends are not missed. */
function unreachedIn(words: string): string[] {
  const ofProcesses = words.split(/^unreached in /m).filter((part) => part.startsWith("proctype"));
  return ofProcesses
    .flatMap((part) => part.split("\n").slice(1))
    .filter((line) => line.includes(", state ") && !line.includes('"-end-"'));
}

function numberIn(words: string, pattern: RegExp): number {
  return Number(pattern.exec(words)?.[1]);
}

it("every model is covered, and every twin and property that it names", async () => {
  const names = (await readdir(MODELS)).filter((name) => name.endsWith(".pml"));
  expect(names.sort()).toEqual(
    Object.keys(COVERED)
      .map((name) => `${name}.pml`)
      .sort(),
  );
  for (const [name, { properties, twins }] of Object.entries(COVERED)) {
    const text = await readFile(join(MODELS, `${name}.pml`), "utf8");
    const named = [...text.matchAll(/^ltl (\w+)/gm)].map(([, property]) => property);
    const known = [...text.matchAll(/^#ifn?def (\w+)/gm)].map(([, define]) => define);
    expect(named.sort()).toEqual([...properties].sort());
    expect([...new Set(known)].filter((define) => define !== "HISTORY").sort()).toEqual(
      Object.keys(twins).sort(),
    );
    expect([...new Set(Object.values(twins).flat())].sort()).toEqual([...properties].sort());
  }
});

beforeEach(({ skip }) => {
  if (missing !== undefined) skip(missing);
});

describe.concurrent.each(Object.entries(COVERED))(
  "the model of %s",
  (name, { properties, variants = [], twins }) => {
    it.each(["", ...variants])("holds in every state %s", { timeout: TIMEOUT_MS }, async (define) => {
      const verify = await verifierOf(name, define);
      for (const property of properties) {
        const { words, trail } = await verify(property);
        expect(words).toMatch(/^State-vector .* errors: 0$/m);
        expect(words).toContain("Full statespace search");
        expect(words).not.toMatch(/not completed|too small|out of memory|memory limit/i);
        expect(words).toContain(`(${property})`);
        expect(trail).toBeUndefined();
        expect(unreachedIn(words)).toEqual([]);
        const states = numberIn(words, /^\s*([\d.e+]+) states, stored/m);
        expect(states).toBeGreaterThan(5);
        console.log(`${name} ${define} ${property}: ${states} states, errors: 0`);
      }
    });

    it.each(Object.entries(twins))(
      "is broken by its twin %s",
      { timeout: TIMEOUT_MS },
      async (twin, broken) => {
        const verify = await verifierOf(name, twin);
        for (const property of broken) {
          const { words, trail } = await verify(property);
          expect(numberIn(words, /errors: (\d+)$/m)).toBeGreaterThan(0);
          expect(words).toMatch(/^pan:1: (assertion violated|acceptance cycle)/m);
          expect(trail).toBeDefined();
        }
      },
    );
  },
);
