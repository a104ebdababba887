/** Tests the bundlers' settings in examples/bundlers: each makes a bundle of the packed package, which then runs. Needs the build. */
import { cp, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as esbuild from "esbuild";
import { rolldown } from "rolldown";
import * as vite from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import webpack from "webpack";
import * as forEsbuild from "../../../../examples/bundlers/esbuild.js";
import * as forRolldown from "../../../../examples/bundlers/rolldown.js";
import * as forVite from "../../../../examples/bundlers/vite.js";
import * as forWebpack from "../../../../examples/bundlers/webpack.js";
import { scratchFolder } from "../scratch-folder.ts";
import { link, packBuild, run, unpackInto, WORKSPACE } from "../user-projects.ts";

/** Bundles in a folder, as the bundler's command line does there. */
type Bundle = (folder: string) => Promise<unknown>;

function byEsbuild(options: esbuild.BuildOptions): Bundle {
  return (folder) => esbuild.build({ ...options, absWorkingDir: folder });
}

function byRolldown({ output, ...options }: typeof forRolldown.whole): Bundle {
  return async (folder) => {
    const build = await rolldown({ ...options, cwd: folder });
    await build.write({ ...[output].flat()[0], dir: join(folder, "out") });
    await build.close();
  };
}

function byVite(options: vite.UserConfig): Bundle {
  return (folder) => vite.build({ ...options, root: folder, configFile: false, logLevel: "silent" });
}

function byWebpack({ output, ...options }: webpack.Configuration): Bundle {
  return (folder) =>
    new Promise((resolve, reject) => {
      const into = { ...output, path: join(folder, "out") };
      // Most of webpack's time is spent on making names short.
      const faster = { optimization: { minimize: false }, performance: false } as const;
      webpack({ ...options, context: folder, output: into, ...faster }, (error, stats) => {
        if (error === null && stats?.hasErrors() === false && !stats.hasWarnings()) resolve(undefined);
        else reject(error ?? new Error(stats?.toString("errors-warnings")));
      });
    });
}

let tarball: string;
const ends: (() => Promise<void>)[] = [];
beforeAll(async () => {
  tarball = await packBuild(await scratchFolder({ onTestFinished: (end) => void ends.push(end) }));
});
afterAll(() => Promise.all(ends.map((end) => end())));

/** Bundles a copy of the example in a folder with the packed package, and returns the folder. */
async function bundled(bundle: Bundle): Promise<string> {
  const folder = await scratchFolder();
  await cp(join(WORKSPACE, "examples/bundlers"), folder, { recursive: true });
  const modules = join(folder, "node_modules");
  await mkdir(modules);
  await unpackInto(modules, tarball);
  // Node 20 has no SQLite of its own.
  await link("@photostructure/sqlite", modules);
  await bundle(folder);
  return folder;
}

async function runTwice(folder: string, app: string): Promise<string[]> {
  const once = () => run(process.execPath, [join("out", app), "shop.db"], folder);
  return [await once(), await once()].map((printed) => printed.trim());
}

describe.each([
  { bundler: "esbuild", app: "app.mjs", bundle: byEsbuild(forEsbuild.leftOut) },
  { bundler: "rolldown", app: "app.mjs", bundle: byRolldown(forRolldown.leftOut) },
  { bundler: "Vite", app: "app.mjs", bundle: byVite(forVite.leftOut) },
  { bundler: "webpack", app: "app.cjs", bundle: byWebpack(forWebpack.leftOut) },
])("with $bundler, a bundle that leaves nevertwice out", ({ app, bundle }) => {
  test("runs on a SQLite file", async () => {
    const folder = await bundled(bundle);
    expect(await runTwice(folder, app)).toEqual(["ran", "replayed"]);
    await rm(join(folder, "node_modules/nevertwice"), { recursive: true });
    await expect(runTwice(folder, app)).rejects.toThrow(/nevertwice/);
  });
});

describe.each([
  { bundler: "esbuild", bundle: byEsbuild(forEsbuild.whole) },
  { bundler: "rolldown", bundle: byRolldown(forRolldown.whole) },
  { bundler: "webpack", bundle: byWebpack(forWebpack.whole) },
])("with $bundler, a whole bundle", ({ bundle }) => {
  test("runs on a SQLite file without the package", async () => {
    const folder = await bundled(bundle);
    await rm(join(folder, "node_modules/nevertwice"), { recursive: true });
    expect(await runTwice(folder, "app.cjs")).toEqual(["ran", "replayed"]);
  });
});

describe.each([
  { bundler: "esbuild", bundle: byEsbuild(forEsbuild.edge) },
  { bundler: "rolldown", bundle: byRolldown(forRolldown.edge) },
  { bundler: "webpack", bundle: byWebpack(forWebpack.edge) },
])("with $bundler, a bundle for Workers", ({ bundle }) => {
  test("contains nothing of Node and answers twice with one order", async () => {
    const folder = await bundled(bundle);
    await rm(join(folder, "node_modules"), { recursive: true });
    const file = join(folder, "out/worker.mjs");
    const imports = /\b(?:from|import|require\w*)\s*\(?\s*["'][\w:/.-]+["']/g;
    expect((await readFile(file, "utf8")).match(imports)).toBe(null);
    const { default: worker } = await import(pathToFileURL(file).href);
    const send = () =>
      worker.fetch(
        new Request("http://shop.example/", { method: "POST", headers: { "idempotency-key": '"order-1"' } }),
      );
    const answers = await Promise.all([await send(), await send()].map((answer) => answer.text()));
    expect(answers).toEqual(["order 1", "order 1"]);
  });
});
