/**
 * Tests the package as its users get it: packed, installed into an empty folder, imported, required and compiled against.
 * Needs the build, which packing makes, and the packages that it depends on, which npm has in its cache.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { decode } from "@jridgewell/sourcemap-codec";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DECORATED, LEGACY_DECORATED, RECORDER, REQUIRED_LIKE_JEST, TYPED } from "./package-consumers.ts";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const WORKSPACE = fileURLToPath(new URL("../../..", import.meta.url));
/** Code for Node and for the edge, source maps and declarations: 2.36 MB when this was set. */
const MAX_UNPACKED_BYTES = 2_500_000;
/** They use another package, which their users have installed. */
const NEED_A_PEER: Readonly<Record<string, string>> = {
  "nevertwice/http/nest": "@nestjs/common",
  "nevertwice/opentelemetry": "@opentelemetry/api",
};
const COMPILERS = ["typescript", "typescript7"];
/** How the compiler resolved before packages had exports, which many projects still ask for. TypeScript 7 no longer has it. */
const BEFORE_EXPORTS = {
  name: "node10",
  type: "commonjs",
  options: { module: "commonjs", moduleResolution: "node10", ignoreDeprecations: "6.0" },
};

let home: string;
let installed: string;
let files: readonly string[];
let subpaths: readonly string[];

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "nevertwice-package-"));
  const packed = await run("npm", ["pack", "--silent", "--pack-destination", home], PACKAGE);
  const tarball = packed.trim().split("\n").at(-1) as string;
  await writeFile(join(home, "package.json"), JSON.stringify({ name: "consumer", private: true }));
  await run(
    "npm",
    ["install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock", `./${tarball}`],
    home,
  );
  installed = join(home, "node_modules", "nevertwice");
  const entries = await readdir(installed, { recursive: true, withFileTypes: true });
  files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(installed, join(entry.parentPath, entry.name)));
  const manifest = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  subpaths = Object.keys(manifest.exports)
    .filter((subpath) => subpath !== "./package.json")
    .map((subpath) => subpath.replace(/^\./, "nevertwice"))
    .filter((subpath) => !(subpath in NEED_A_PEER));
}, 120_000);

afterAll(() => rm(home, { recursive: true, force: true }));

describe("what is in the tarball", () => {
  test("contains the bundle, its maps, declarations, the command, a readme, a licence and the manifest", () => {
    const strangers = files.filter(
      (file) =>
        !/^dist\/.+\.(js|cjs|cjs\.map|d\.ts|d\.cts)$/.test(file) &&
        file !== "bin/nevertwice.js" &&
        !["README.md", "LICENSE", "package.json"].includes(file),
    );
    expect(strangers).toEqual([]);
    expect(files).toEqual(
      expect.arrayContaining(["README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"]),
    );
  });

  test("holds no code and no declarations that no subpath loads", async () => {
    const code = files.filter((file) => /^dist\/.+\.c?[jt]s$/.test(file));
    const texts = await Promise.all(code.map((file) => readFile(join(installed, file), "utf8")));
    const { exports } = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
    const targets = Object.values<object>(exports).flatMap((target) => Object.values(target));
    const named = new Set([
      ...targets.flatMap((target) => [target.slice(2), declarationOf(target.slice(2))]),
      ...code.flatMap((file, i) =>
        pathsIn(texts[i] ?? "").map((path) =>
          /\.d\.c?ts$/.test(file) ? declarationOf(join(dirname(file), path)) : join(dirname(file), path),
        ),
      ),
    ]);
    expect(code.filter((file) => !named.has(file))).toEqual([]);
  });

  test("has source maps that lead to the line of the source, without its text", async () => {
    const maps = files.filter((file) => file.endsWith(".map"));
    expect(maps.length).toBeGreaterThan(0);
    const astray: string[] = [];
    let compared = 0;
    for (const map of maps) {
      const { sources, sourcesContent, mappings } = JSON.parse(await readFile(join(installed, map), "utf8"));
      expect(sourcesContent).toBeUndefined();
      const texts = await Promise.all(
        sources.map(async (source: string) =>
          (await readFile(resolve(PACKAGE, dirname(map), source), "utf8")).split("\n"),
        ),
      );
      const lines = decode(mappings);
      const code = (await readFile(join(installed, map.replace(/\.map$/, "")), "utf8")).split("\n");
      for (const [i, line] of code.entries()) {
        const name = /^(?:async )?function (\w+)\(/.exec(line)?.[1];
        if (name === undefined) continue;
        compared++;
        const [, source = -1, sourceLine = -1] = lines[i]?.[0] ?? [];
        // The bundler numbers functions of one name.
        if (!texts[source]?.[sourceLine]?.includes(`function ${name.replace(/\$\d+$/, "")}`))
          astray.push(`${map}: ${name}`);
      }
    }
    expect(astray).toEqual([]);
    expect(compared).toBeGreaterThan(1_000);
  });

  test("stays small", async ({ annotate }) => {
    const sizes = await Promise.all(files.map(async (file) => (await stat(join(installed, file))).size));
    const unpacked = sizes.reduce((sum, size) => sum + size, 0);
    await annotate(`${files.length} files, ${unpacked} bytes unpacked`);
    expect(unpacked).toBeLessThan(MAX_UNPACKED_BYTES);
  });

  test.for([
    { loaded: "all of nevertwice/client", app: 'export * from "nevertwice/client";', most: 6_000 },
    // Everything that a guard can do is reachable from it, so a bundler keeps most of the engine.
    { loaded: "all of nevertwice", app: 'export * from "nevertwice";', most: 31_000 },
    {
      loaded: "createGuard and memoryStore",
      app: 'import { createGuard } from "nevertwice"; import { memoryStore } from "nevertwice/stores/memory"; export const guard = createGuard({ store: memoryStore() });',
      most: 34_500,
    },
  ])(
    "a page that loads $loaded loads at most $most bytes, minified and gzipped",
    async ({ app, most }, { annotate }) => {
      const { initial, later } = await weighApp(app);
      await annotate(`${initial} bytes at once, ${later} later`);
      expect(initial).toBeLessThan(most);
    },
  );

  test("brings two small packages along, for SHA-256 outside of Node and for TOML", async () => {
    const packages = await readdir(join(home, "node_modules"));
    expect(packages.filter((name) => !name.startsWith(".")).sort()).toEqual([
      "@noble",
      "nevertwice",
      "smol-toml",
    ]);
  });
});

/** The gzipped sizes of what an application loads with its entry, and of what it loads later, without `@noble/hashes`. */
async function weighApp(app: string): Promise<{ initial: number; later: number }> {
  const entry = join(home, "weighed.mjs");
  await writeFile(entry, app);
  const build = await rolldown({
    input: entry,
    platform: "browser",
    external: /^@noble\//,
    resolve: { conditionNames: ["browser", "import"] },
    logLevel: "silent",
  });
  const { output } = await build.generate({ format: "esm", minify: true });
  await build.close();
  const chunks = output.filter((file) => file.type === "chunk");
  const initial = new Set(chunks.filter(({ isEntry }) => isEntry));
  for (const { imports } of initial)
    for (const chunk of chunks) if (imports.includes(chunk.fileName)) initial.add(chunk);
  const weigh = (some: Iterable<{ readonly code: string }>) =>
    Array.from(some, ({ code }) => gzipSync(code, { level: 9 }).length).reduce((sum, size) => sum + size, 0);
  return { initial: weigh(initial), later: weigh(chunks.filter((chunk) => !initial.has(chunk))) };
}

describe("every subpath", { timeout: 60_000 }, () => {
  test("but those for Nest and OpenTelemetry needs no other package", async () => {
    for (const [subpath, peer] of Object.entries(NEED_A_PEER))
      await expect(runProgram("peer.mjs", `await import("${subpath}")`)).rejects.toThrow(
        `Cannot find module '${peer}'`,
      );
  });

  test("has the same exports if it is imported as if it is required: there is one copy", async () => {
    const program = `import { createRequire } from "node:module";
      const require = createRequire(import.meta.url);
      for (const path of ${JSON.stringify(subpaths)}) {
        const { default: _, "module.exports": __, ...imported } = await import(path);
        const required = require(path);
        const names = Object.keys(required);
        const isSame = names.length > 0 && names.length === Object.keys(imported).length;
        console.log(path, isSame && names.every((name) => imported[name] === required[name]));
      }`;
    expect(await runProgram("import-all.mjs", program)).toBe(
      subpaths.map((path) => `${path} true\n`).join(""),
    );
  });

  test("has errors that the other copy recognises: the code for the edge, and that for Node", async () => {
    const web = pathToFileURL(join(installed, "dist/web/index.js")).href;
    const program = `import { createRequire } from "node:module";
      import * as edge from "${web}";
      const node = createRequire(import.meta.url)("nevertwice");
      const caught = (copy) => { try { copy.createGuard({}); } catch (error) { return error; } };
      for (const [from, to] of [[edge, node], [node, edge]]) {
        const error = caught(from);
        console.log(error instanceof to.NevertwiceError, to.isNevertwiceError(error, "options-invalid"));
      }`;
    expect(await runProgram("two-copies.mjs", program)).toBe("false true\nfalse true\n");
  });

  test("can be required where require loads no ES modules", async () => {
    const program = `for (const path of ${JSON.stringify(subpaths)})
      console.log(path, Object.keys(require(path)).length > 0);`;
    await writeFile(join(home, "require-all.cjs"), program);
    expect(await run(process.execPath, ["--no-experimental-require-module", "require-all.cjs"], home)).toBe(
      subpaths.map((path) => `${path} true\n`).join(""),
    );
  });
});

describe("in a context without dynamic import, as Jest has", { timeout: 60_000 }, () => {
  test("a store requires the driver that the application has installed", async () => {
    const driver = join(home, "node_modules", "ioredis");
    await symlink(join(WORKSPACE, "node_modules", "ioredis"), driver);
    expect(await runProgram("like-jest.cjs", REQUIRED_LIKE_JEST)).toBe("function\n");
    await unlink(driver);
    expect(await runProgram("like-jest.cjs", REQUIRED_LIKE_JEST)).toBe("driver-missing\n");
  });
});

describe("import 'nevertwice'", { timeout: 60_000 }, () => {
  test("loads only its own files and node:crypto", async () => {
    const foreign = await foreignModules('import "nevertwice";');
    expect(foreign).toEqual(["node:crypto"]);
  });

  test("opens four files, since each takes its time", async () => {
    const opened = await resolvedModules('import "nevertwice";');
    const own = `${pathToFileURL(installed).href}/dist/`;
    expect(opened.filter((url) => url.startsWith(own)).map((url) => url.slice(own.length))).toEqual([
      "chunks/base.cjs",
      "chunks/guard.cjs",
      "index.cjs",
      "index.js",
    ]);
  });

  test("only pipelines load the package that reads TOML", async () => {
    const program = subpaths
      .filter((subpath) => subpath !== "nevertwice/pipeline")
      .map((subpath) => `import "${subpath}";`)
      .join("\n");
    const others = (await foreignModules(program)).filter((url) => !url.startsWith("node:"));
    expect(others).toEqual([]);
    expect((await foreignModules('import "nevertwice/pipeline";')).join()).toContain("smol-toml");
  });

  test("and the recorder that says so sees what it should", async () => {
    const foreign = await foreignModules('import "nevertwice"; import "node:zlib";');
    expect(foreign).toEqual(["node:crypto", "node:zlib"]);
  });

  /** What a program makes Node resolve. */
  async function resolvedModules(program: string): Promise<readonly string[]> {
    const record = join(home, "resolved.txt");
    await rm(record, { force: true });
    await writeFile(join(home, "recorder.mjs"), RECORDER);
    await writeFile(join(home, "recorded.mjs"), program);
    await run(process.execPath, ["--import", "./recorder.mjs", "recorded.mjs"], home, { RECORD: record });
    return [...new Set((await readFile(record, "utf8")).trim().split("\n"))].sort();
  }

  /** What a program makes Node resolve outside the package, itself excepted. */
  async function foreignModules(program: string): Promise<readonly string[]> {
    const resolved = await resolvedModules(program);
    const own = pathToFileURL(installed).href;
    expect(resolved.filter((url) => url.startsWith(own)).length).toBeGreaterThan(0);
    return resolved.filter((url) => !url.startsWith(own) && !/\/(recorder|recorded)\.mjs$/.test(url));
  }
});

describe("the command nevertwice", { timeout: 60_000 }, () => {
  test("says which package to install when only the library is installed", async () => {
    const command = run(join(home, "node_modules/.bin/nevertwice"), ["version"], home);
    await expect(command).rejects.toMatchObject({
      message: expect.stringContaining(
        "\nThe command is in @nevertwice/server: npm install @nevertwice/server\n",
      ),
      cause: { code: 1 },
    });
  });
});

describe.each(COMPILERS)("a program compiled by %s", { timeout: 60_000 }, (compiler) => {
  test.each([
    { name: "bundler", type: "module", options: { module: "esnext", moduleResolution: "bundler" } },
    {
      name: "bundler-commonjs",
      type: "commonjs",
      options: { module: "commonjs", moduleResolution: "bundler" },
    },
    { name: "node16", type: "module", options: { module: "node16" } },
    { name: "node16-commonjs", type: "commonjs", options: { module: "node16" } },
    { name: "nodenext", type: "module", options: { module: "nodenext" } },
    { name: "nodenext-commonjs", type: "commonjs", options: { module: "nodenext" } },
    ...(compiler === "typescript" ? [BEFORE_EXPORTS] : []),
  ])("finds the types in $name, and runs", async ({ name, type, options }) => {
    const program = await compile(compiler, name, { program: DECORATED, typed: TYPED }, options, type);
    expect(await run(process.execPath, [program], home)).toBe("1 42 42\n");
  });

  test("decorates a method with a standard decorator, which then runs once", async () => {
    const program = await compile(compiler, "standard", { program: DECORATED }, { module: "nodenext" });
    expect(await run(process.execPath, [program], home)).toBe("1 42 42\n");
  });

  test("decorates a method under experimentalDecorators, which then runs once", async () => {
    const options = { module: "nodenext", experimentalDecorators: true };
    const program = await compile(compiler, "legacy", { program: LEGACY_DECORATED }, options);
    expect(await run(process.execPath, [program], home)).toBe("1 42 42\n");
  });
});

function declarationOf(file: string): string {
  return file.replace(/\.(c?)js$/, ".d.$1ts");
}

/** The files that a module loads, and the workers that it starts. */
function pathsIn(text: string): readonly string[] {
  const paths =
    /(?:from ?|import ?|import\(|require\(|new URL\()"(\.[^"]+)"|new [\w.]*Worker\(require\("node:path"\)\.join\(__dirname, "([^"]+)"/g;
  return [...text.matchAll(paths)].map(([, path, worker]) => path ?? (worker as string));
}

/** Compiles strict programs in a folder of their own, without anybody's ambient types; answers the path of `program`. */
async function compile(
  compiler: string,
  name: string,
  programs: Readonly<Record<string, string>>,
  options: object,
  type = "module",
): Promise<string> {
  const folder = join(home, `${compiler}-${name}`);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ type }));
  for (const [file, text] of Object.entries(programs))
    await writeFile(join(folder, `${file}.ts`), type === "commonjs" ? withoutTopLevelAwait(text) : text);
  const compilerOptions = {
    target: "es2022",
    lib: ["es2022", "esnext.decorators", "dom"],
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    outDir: "out",
    rootDir: ".",
    ...options,
  };
  const files = Object.keys(programs).map((file) => `${file}.ts`);
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  await run(process.execPath, [join(WORKSPACE, "node_modules", compiler, "bin/tsc"), "-p", folder], home);
  return join(folder, "out", "program.js");
}

/** The program in a function, since CommonJS modules have no top-level await. */
function withoutTopLevelAwait(program: string): string {
  const lines = program.split("\n");
  const imports = lines.filter((line) => line.startsWith("import "));
  const rest = lines.filter((line) => !line.startsWith("import "));
  return [...imports, "async function main(): Promise<void> {", ...rest, "}", "void main();"].join("\n");
}

async function runProgram(name: string, program: string): Promise<string> {
  await writeFile(join(home, name), program);
  return run(process.execPath, [name], home);
}

/** Answers what it printed; a program that fails throws with everything that it said. */
function run(
  program: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  // A test runner's own settings are none of the child's business.
  const { NODE_OPTIONS: _, ...inherited } = process.env;
  return new Promise((done, fail) => {
    execFile(program, args, { cwd, env: { ...inherited, ...env } }, (error, stdout, stderr) => {
      if (error === null) done(stdout);
      else fail(new Error(`${program} ${args.join(" ")}\n${stdout}${stderr}`, { cause: error }));
    });
  });
}
