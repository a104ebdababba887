/**
 * Tests that nothing of Node is left in what Workers and Vercel's edge bundle. The sources name the module to change; the
 * bundles are of the build, whose files are cut in another way. Needs the build.
 */
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { describe, expect, test } from "vitest";
import { bundleForEdge } from "../../../../scripts/smoke/edge-bundle.js";

const HOME = fileURLToPath(new URL("../../", import.meta.url));
const { exports } = JSON.parse(readFileSync(`${HOME}package.json`, "utf8"));

interface Subpath {
  readonly name: string;
  readonly source: string;
  /** Whether the package has files of it for the edge. */
  readonly isPortable: boolean;
}

const SUBPATHS = Object.entries<Readonly<Record<string, string>>>(exports).flatMap(
  ([subpath, { require: file, workerd }]): readonly Subpath[] =>
    file === undefined
      ? []
      : [
          {
            name: subpath.replace(".", "nevertwice"),
            source: file.replace(/^\.\/dist\/(.+)\.cjs$/, "$1"),
            isPortable: workerd !== undefined,
          },
        ],
);

/** Which modules behind this source import a module of Node, such as `src/http/node.ts imports node:http`. */
async function findNodeImports(source: string): Promise<readonly string[]> {
  const found = new Set<string>();
  const build = await rolldown({
    input: `${HOME}src/${source}.ts`,
    platform: "neutral",
    logLevel: "silent",
    external: /^(?![./#]|[a-z]:[\\/])/i,
    resolve: { alias: { "#platform": `${HOME}src/platform/web.ts` } },
    plugins: [
      {
        name: "imports",
        moduleParsed({ id, importedIds, dynamicallyImportedIds }) {
          for (const name of [...importedIds, ...dynamicallyImportedIds])
            if (isBuiltin(name)) found.add(`${relative(HOME, id)} imports ${name}`);
        },
      },
    ],
  });
  await build.generate();
  await build.close();
  return [...found].sort();
}

describe.each(SUBPATHS.filter(({ isPortable }) => isPortable))("$name", ({ name, source }) => {
  test("no module of its source imports a module of Node", async () => {
    expect(await findNodeImports(source)).toEqual([]);
  });

  test.each(["workerd", "edge-light"] as const)("its bundle for %s is complete", async (runtime) => {
    expect((await bundleForEdge(name, runtime)).imports).toEqual([]);
  });
});

/** Their drivers need sockets or a process that stays; etcd's streams and its session serve many calls. */
const WITH_DRIVERS_OF_NODE = [
  "nevertwice/events/bullmq",
  "nevertwice/events/kafka",
  "nevertwice/events/lambda-batch",
  "nevertwice/events/nats",
  "nevertwice/events/rabbitmq",
  "nevertwice/events/redis-streams",
  "nevertwice/outbox/nats",
  "nevertwice/outbox/rabbitmq",
  "nevertwice/stores/etcd",
  "nevertwice/stores/redis",
];

test("every other subpath needs a module of Node, or a driver that runs only there", async () => {
  const others = SUBPATHS.filter(({ isPortable }) => !isPortable);
  const found = await Promise.all(others.map(async ({ source }) => (await findNodeImports(source)).length));
  expect(others.filter((_, index) => found[index] === 0).map(({ name }) => name)).toEqual(
    WITH_DRIVERS_OF_NODE,
  );
});

test("docs/runtimes.md lists these subpaths for every runtime, and every other one for Node, Bun and Deno", async () => {
  const page = await readFile(new URL("../../../../docs/runtimes.md", import.meta.url), "utf8");
  const listed = (table: string) =>
    [...table.matchAll(/^\| (`nevertwice.*?) \|/gm)].flatMap(([, cell = ""]) =>
      cell.split(", ").map((name) => name.replaceAll("`", "")),
    );
  const [everywhere = "", onNode = ""] =
    page.split("## What runs where")[1]?.split("The others run on") ?? [];
  const names = (isPortable: boolean) =>
    SUBPATHS.filter((subpath) => subpath.isPortable === isPortable)
      .map(({ name }) => name)
      .sort();
  expect(listed(everywhere).sort()).toEqual(names(true));
  expect(listed(onNode.split("## Workers")[0] ?? "").sort()).toEqual(names(false));
});

test("the check of the sources names a module that imports one of Node", async () => {
  expect(await findNodeImports("http/node")).toContain("src/http/node-exchange.ts imports node:buffer");
});

test("the check of the bundles sees a module of Node", async () => {
  expect((await bundleForEdge("nevertwice/http/node", "workerd")).imports).toContain("node:buffer");
});
