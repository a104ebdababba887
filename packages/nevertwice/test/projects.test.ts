/**
 * Tests the projects in `examples/` that need nothing but what this repository has installed: compiled under `strict` against
 * the packed build, and tested by their own tests. Needs the build. `npm run campaign -- projects` tests all of them on a fresh install.
 */
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scratchFolder } from "./scratch-folder.ts";
import { copyProject, link, packBuild, readManifest, run, unpackInto, WORKSPACE } from "./user-projects.ts";

const PROJECTS = ["esm", "express-commonjs"];

test("each compiles and passes its tests", { timeout: 120_000 }, async () => {
  const home = await scratchFolder();
  const tarball = await packBuild(home);
  await unpackInto(join(home, "node_modules"), tarball);
  const passed = PROJECTS.map(async (name) => {
    const folder = join(home, name);
    await copyProject(name, folder);
    const { dependencies, devDependencies } = await readManifest(folder);
    const { nevertwice: _, ...others } = { ...dependencies, ...devDependencies };
    await Promise.all(Object.keys(others).map((each) => link(each, join(folder, "node_modules"))));
    await mkdir(join(folder, "node_modules", ".bin"));
    await symlink(join(WORKSPACE, "node_modules/typescript/bin/tsc"), join(folder, "node_modules/.bin/tsc"));
    return run("npm", ["run", "--silent", "test"], folder);
  });
  for (const printed of await Promise.all(passed)) expect(printed).toMatch(/^(?:#|ℹ) fail 0$/m);
});
