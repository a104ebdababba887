/**
 * Tests the projects in `examples/` on a fresh install, as users of five frameworks have them: the packed package and the real
 * framework in an empty folder, compiled under `strict`, and the project's own tests. `npm run campaign -- projects` runs it; it
 * downloads several hundred megabytes, so `npm test` does not.
 */
import { mkdir, readFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { scratchFolder } from "../scratch-folder.ts";
import { doorFor } from "../stores/upstash/scene.ts";
import {
  copyProject,
  install,
  installNode,
  packPackage,
  readManifest,
  run,
  versionIn,
  writeManifest,
} from "../user-projects.ts";
import { reportOn } from "./figures.ts";

const TRIAL = "The user projects on a fresh install";

interface Project {
  readonly title: string;
  readonly folder: string;
  /** Whose versions the report names. */
  readonly packages: readonly string[];
  readonly scripts: readonly string[];
  /** The major version of Node, if its framework does not run on the oldest that this package supports. */
  readonly node?: number;
  /** Versions other than those in the project's manifest, by how the packages' names begin. */
  readonly versions?: readonly [start: string, version: string];
  /** Scripts other than those in the project's manifest. */
  readonly commands?: Readonly<Record<string, string>>;
  readonly needsUpstash?: boolean;
}

const PROJECTS: readonly Project[] = [
  { title: "plain ESM", folder: "esm", packages: ["typescript"], scripts: ["test"] },
  {
    title: "Express in CommonJS",
    folder: "express-commonjs",
    packages: ["express", "typescript"],
    scripts: ["test"],
  },
  {
    title: "Nest 12 with Jest",
    folder: "nestjs-jest",
    packages: ["@nestjs/core", "jest", "ts-jest", "typescript"],
    scripts: ["build", "test", "test:e2e"],
    // Nest 12 is ESM, which Jest can require only there.
    node: 24,
  },
  {
    title: "Nest 11 with plain Jest, in CommonJS",
    folder: "nestjs-jest",
    packages: ["@nestjs/core", "jest", "ts-jest", "typescript"],
    scripts: ["build", "test", "test:e2e"],
    versions: ["@nestjs/", "^11.0.1"],
    // As `nest new` writes them: the flag of the example is for Nest 12, which is ESM.
    commands: { test: "jest", "test:e2e": "jest --config ./test/jest-e2e.json" },
  },
  {
    title: "Next at the edge",
    folder: "next-edge",
    packages: ["next", "@upstash/redis", "typescript"],
    scripts: ["test"],
    needsUpstash: true,
  },
  {
    title: "Hono on Workers",
    folder: "workers-hono",
    packages: ["hono", "wrangler", "typescript"],
    scripts: ["test"],
    // The newest wrangler does not run on Node 20.
    node: 24,
  },
];

/** They say how often they were used, unless they are told not to, and look for things on the network. */
const QUIET = {
  NEXT_TELEMETRY_DISABLED: "1",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  UPSTASH_DISABLE_TELEMETRY: "1",
};

async function upstashVariables(context: TestContext): Promise<Record<string, string>> {
  const { url, token } = await doorFor(context);
  return { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token };
}

describe("a project on a fresh install", () => {
  let packed: string;
  let tarball: string;
  const ends: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    packed = await scratchFolder({ onTestFinished: (end) => void ends.push(end) });
    tarball = await packPackage(packed);
  });
  afterAll(() => Promise.all(ends.map((end) => end())));

  test.for(PROJECTS)("compiles and passes its tests: $title", async (project, context) => {
    const folder = join(await scratchFolder(context), project.folder);
    await mkdir(folder);
    await copyProject(project.folder, folder);
    const { versions } = project;
    const manifest = await readManifest(folder);
    for (const group of [manifest.dependencies, manifest.devDependencies])
      for (const name of Object.keys(group))
        if (versions !== undefined && name.startsWith(versions[0])) group[name] = versions[1];
    Object.assign(manifest.scripts, project.commands);
    manifest.dependencies.nevertwice = `file:${tarball}`;
    await writeManifest(folder, manifest);
    await install(folder);
    const config = JSON.parse(await readFile(join(folder, "tsconfig.json"), "utf8"));
    expect(config.compilerOptions.strict).toBe(true);
    const node =
      project.node === undefined ? "" : await installNode(project.node, await scratchFolder(context));
    const env = {
      ...QUIET,
      ...(node !== "" && { PATH: `${node}${delimiter}${process.env.PATH}` }),
      ...(project.needsUpstash && (await upstashVariables(context))),
    };
    for (const script of project.scripts) await run("npm", ["run", script], folder, env);
    const version = (await run("node", ["--version"], folder, env)).trim();
    const installed = await Promise.all(project.packages.map((name) => versionIn(folder, name)));
    reportOn(project.title, {
      trial: TRIAL,
      figures: `Node ${version.slice(1)}, ${installed.join(", ")}: it compiles under \`strict\`, and its tests pass`,
    });
  });
});
