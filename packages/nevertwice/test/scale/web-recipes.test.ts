/**
 * Tests the recipes of examples/recipes/web with frameworks that are too large for the repository's own install: the packed
 * package and the real frameworks in a folder of their own, built and served as their readers do. The folder is in the cache,
 * so that frameworks are downloaded once. `npm run campaign -- recipes` begins with an empty folder, and runs the form of
 * examples/next too.
 *
 * The lockfile beside this test is what `npm install --package-lock-only` makes of the manifest that is written there.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { checkOrders, checkOrdersInBrowser } from "../http/orders-check.ts";
import { checkPayments } from "../http/payments-check.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { launchChromium } from "../services/chromium.ts";
import { installMissing } from "../services/packages.ts";
import { freePort } from "../services/ports.ts";
import { sharedUrl } from "../services/services.ts";
import {
  copyProject,
  install,
  packBuild,
  readManifest,
  run,
  unpackInto,
  versionIn,
  WORKSPACE,
  writeManifest,
} from "../user-projects.ts";
import { reportOn } from "./figures.ts";
import { IS_FULL } from "./sizes.ts";

const HOME = join(WORKSPACE, ".cache/web-recipes");
const LOCKFILE = fileURLToPath(new URL("web-recipes/package-lock.json", import.meta.url));
const TRIAL = "The recipes of web frameworks on a fresh install";
const STARTED_WITHIN_MS = 60_000;
const POLL_MS = 100;

const QUIET = {
  ASTRO_TELEMETRY_DISABLED: "1",
  NEXT_TELEMETRY_DISABLED: "1",
  NITRO_TELEMETRY_DISABLED: "1",
  DO_NOT_TRACK: "1",
};

interface Framework {
  readonly title: string;
  readonly folder: string;
  /** Whose versions the report names. */
  readonly packages: readonly string[];
  /** The arguments of `npx`. */
  readonly build?: readonly string[];
  readonly start: readonly [program: string, ...args: string[]];
  /** Whether the recipe has a form, too. */
  readonly hasForm?: boolean;
}

const BUN_PACKAGE = `@oven/bun-${process.platform}-${process.arch === "arm64" ? "aarch64" : process.arch}`;

const FRAMEWORKS: readonly Framework[] = [
  {
    title: "SvelteKit",
    folder: "sveltekit",
    packages: ["@sveltejs/kit"],
    build: ["vite", "build"],
    start: ["node", "build/index.js"],
    hasForm: true,
  },
  {
    title: "Astro",
    folder: "astro",
    packages: ["astro"],
    build: ["astro", "build"],
    start: ["node", "dist/server/entry.mjs"],
    hasForm: true,
  },
  {
    title: "Nitro",
    folder: "nitro",
    packages: ["nitropack", "h3"],
    build: ["nitropack", "build"],
    start: ["node", ".output/server/index.mjs"],
  },
  {
    title: "Elysia on Bun",
    folder: "elysia",
    packages: ["elysia", BUN_PACKAGE],
    start: [join(HOME, "node_modules", BUN_PACKAGE, "bin", "bun"), "server.js"],
  },
];

/** It has an install of its own, which takes minutes, so only the campaign runs it. Its payments have a campaign of their own. */
const NEXT: Framework = {
  title: "The form of Next",
  folder: "next",
  packages: ["next", "react"],
  build: ["next", "build"],
  start: ["node", "node_modules/next/dist/bin/next", "start", "-H", "127.0.0.1"],
};

async function started(url: string, server: ChildProcess, said: () => string): Promise<void> {
  const until = performance.now() + STARTED_WITHIN_MS;
  while (!(await fetch(url).then(Boolean, () => false))) {
    if (server.exitCode !== null || performance.now() > until)
      throw new Error(`the server did not start:\n${said()}`);
    await setTimeout(POLL_MS);
  }
}

async function countLines(file: string): Promise<number> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text.split("\n").length - 1;
}

/** npm has the binaries of this version for every platform. It leaves those that it lacks out of a lockfile. */
const OVERRIDES = { rollup: "4.60.0" };

/** Installs the frameworks, unless they are there. */
async function installFrameworks(): Promise<void> {
  const lockfile = await readFile(LOCKFILE, "utf8");
  const stamp = join(HOME, "installed.json");
  const isThere = (await readFile(stamp, "utf8").catch(() => "")) === lockfile;
  if (isThere && !IS_FULL) return;
  await rm(HOME, { recursive: true, force: true });
  await mkdir(HOME, { recursive: true });
  const { dependencies, ...manifest } = await readManifest(join(WORKSPACE, "examples/recipes/web"));
  const { nevertwice: _, ...frameworks } = dependencies;
  await writeManifest(HOME, { ...manifest, dependencies: frameworks, overrides: OVERRIDES });
  await writeFile(join(HOME, "package-lock.json"), lockfile);
  await run("npm", ["ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"], HOME);
  await writeFile(stamp, lockfile);
}

async function buildIn(home: string, { folder, build }: Framework): Promise<void> {
  if (build !== undefined) await run("npx", ["--no-install", ...build], join(home, folder), QUIET);
}

describe("the recipe", () => {
  /** The example's files, inside the folder that has its packages. */
  let home: string;
  let tarball: string;
  /** By folder. All of them run at once. */
  let builds: ReadonlyMap<string, Promise<unknown>>;
  let browser: Browser | undefined;

  beforeAll(async () => {
    await Promise.all([installFrameworks(), installMissing(["chromium"])]);
    home = await mkdtemp(join(HOME, "files-"));
    await copyProject("recipes/web", home);
    tarball = await packBuild(home);
    await rm(join(HOME, "node_modules/nevertwice"), { recursive: true, force: true });
    await unpackInto(join(HOME, "node_modules"), tarball);
    builds = new Map(FRAMEWORKS.map((framework) => [framework.folder, buildIn(home, framework)]));
    // A build that fails does so in the test that awaits it.
    await Promise.allSettled(builds.values());
  });
  afterAll(async () => {
    await browser?.close();
    await rm(home, { recursive: true, force: true });
  });

  /** Starts the framework's own server in a folder, with these variables, and returns its URL. */
  async function start(
    { start: [program, ...args] }: Framework,
    cwd: string,
    variables: Readonly<Record<string, string>>,
  ): Promise<string> {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const env = {
      ...process.env,
      ...QUIET,
      ...variables,
      NODE_ENV: "production",
      HOST: "127.0.0.1",
      PORT: String(port),
      // SvelteKit refuses a form of another origin, and does not know its own.
      ORIGIN: url,
    };
    const server = spawn(program, args, { cwd, env, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    // Frameworks report what the handler throws here, which is part of the checks.
    server.stderr?.setEncoding("utf8").on("data", (text) => {
      said += text;
    });
    onTestFinished(async () => {
      if (server.exitCode !== null) return;
      const exited = once(server, "exit");
      server.kill("SIGKILL");
      await exited;
    });
    await started(`${url}/payments`, server, () => said);
    return url;
  }

  async function checkForm(context: TestContext, url: string, orders: () => Promise<number>): Promise<void> {
    await checkOrders(url, orders);
    browser ??= await launchChromium(context);
    await checkOrdersInBrowser(browser, url, orders);
  }

  test.for(FRAMEWORKS)("for $title charges once for each key", async (framework, context) => {
    const { title, folder, packages, hasForm = false } = framework;
    await builds.get(folder);
    const ledger = join(home, `${folder}.txt`);
    const url = await start(framework, join(home, folder), {
      REDIS_URL: sharedUrl(context, "redis"),
      SHOP: `${folder}-${randomUUID()}`,
      SHOP_LEDGER: ledger,
    });
    await checkPayments(url, () => countLines(ledger));
    const charges = await countLines(ledger);
    expect(charges).toBe(3);
    if (hasForm) await checkForm(context, url, async () => (await countLines(ledger)) - charges);
    const installed = await Promise.all(packages.map((name) => versionIn(HOME, name)));
    const form = hasForm ? "; a form that is sent twice, one order" : "";
    reportOn(title, {
      trial: TRIAL,
      figures: `${installed.join(", ")}: 20 duplicates, one charge${form}`,
    });
  });

  if (IS_FULL)
    test("for a form of Next makes one order", async (context) => {
      const { title, folder, packages } = NEXT;
      const parent = await scratchFolder(context);
      const cwd = join(parent, folder);
      await copyProject(folder, cwd);
      const manifest = await readManifest(cwd);
      manifest.dependencies.nevertwice = `file:${tarball}`;
      await writeManifest(cwd, manifest);
      await install(cwd);
      await buildIn(parent, NEXT);
      const ledger = join(cwd, "ledger.jsonl");
      const url = await start(NEXT, cwd, { LEDGER_FILE: ledger });
      await checkForm(context, url, () => countLines(ledger));
      const installed = await Promise.all(packages.map((name) => versionIn(cwd, name)));
      const figures = `${installed.join(", ")}: a form that is sent twice, one order`;
      reportOn(title, { trial: TRIAL, figures });
    });
});
