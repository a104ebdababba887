/**
 * Tests the package as its users get it: packed, installed into an empty folder, imported, required and compiled against.
 * Needs the build, which packing makes, and the one package that it depends on, which npm has in its cache.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DECORATED, LEGACY_DECORATED, RECORDER, TYPED } from "./package-consumers.ts";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const WORKSPACE = fileURLToPath(new URL("../../..", import.meta.url));
/** The bundle, its maps and the declarations. */
const MAX_UNPACKED_BYTES = 3_400_000;
/** They use another package, which their users have installed. */
const NEED_A_PEER: Readonly<Record<string, string>> = {
  "nevertwice/http/nest": "@nestjs/common",
  "nevertwice/opentelemetry": "@opentelemetry/api",
};
const COMPILERS = ["typescript", "typescript7"];

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
        !/^dist\/.+\.(js|js\.map|d\.ts)$/.test(file) &&
        file !== "bin/nevertwice.js" &&
        !["README.md", "LICENSE", "package.json"].includes(file),
    );
    expect(strangers).toEqual([]);
    expect(files).toEqual(
      expect.arrayContaining(["README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"]),
    );
  });

  test("holds no declarations of sources that are gone, and no code that no subpath loads", async () => {
    const declared = files.filter((file) => file.endsWith(".d.ts"));
    const source = (file: string) => join(PACKAGE, file.replace("dist/", "src/").replace(/\.d\.ts$/, ".ts"));
    expect(declared.filter((file) => !existsSync(source(file)))).toEqual([]);
    const code = files.filter((file) => /^dist\/.+\.js$/.test(file));
    const texts = await Promise.all(code.map((file) => readFile(join(installed, file), "utf8")));
    const { exports, imports } = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
    const named = new Set([
      ...[...Object.values<string>(exports), ...Object.values<string>(imports["#platform"])].map((target) =>
        target.slice(2),
      ),
      ...code.flatMap((file, i) => pathsIn(texts[i] ?? "").map((path) => join(dirname(file), path))),
    ]);
    expect(code.filter((file) => !named.has(file))).toEqual([]);
  });

  test("has source maps that lead to the sources, without their text", async () => {
    const maps = files.filter((file) => file.endsWith(".map"));
    expect(maps.length).toBeGreaterThan(0);
    const astray: string[] = [];
    for (const map of maps) {
      const { sources, sourcesContent } = JSON.parse(await readFile(join(installed, map), "utf8"));
      expect(sourcesContent).toBeUndefined();
      for (const source of sources)
        if (!existsSync(resolve(PACKAGE, dirname(map), source))) astray.push(`${map}: ${source}`);
    }
    expect(astray).toEqual([]);
  });

  test("has declarations that name built files, as resolvers other than the compiler's need them", async () => {
    const declarations = files.filter((file) => file.endsWith(".d.ts"));
    const texts = await Promise.all(declarations.map((file) => readFile(join(installed, file), "utf8")));
    expect(declarations.filter((_, index) => /["(]\.{1,2}\/[^"]+\.ts"/.test(texts[index] as string))).toEqual(
      [],
    );
  });

  test("stays small", async ({ annotate }) => {
    const sizes = await Promise.all(files.map(async (file) => (await stat(join(installed, file))).size));
    const unpacked = sizes.reduce((sum, size) => sum + size, 0);
    await annotate(`${files.length} files, ${unpacked} bytes unpacked`);
    expect(unpacked).toBeLessThan(MAX_UNPACKED_BYTES);
  });

  test("brings two small packages along, for SHA-256 outside of Node and for TOML", async () => {
    const packages = await readdir(join(home, "node_modules"));
    expect(packages.filter((name) => !name.startsWith(".")).sort()).toEqual([
      "@noble",
      "nevertwice",
      "smol-toml",
    ]);
  });
});

describe("every subpath", { timeout: 60_000 }, () => {
  test("but those for Nest and OpenTelemetry needs no other package", async () => {
    for (const [subpath, peer] of Object.entries(NEED_A_PEER))
      await expect(runProgram("peer.mjs", `await import("${subpath}")`)).rejects.toThrow(
        `Cannot find package '${peer}'`,
      );
  });

  test("can be imported", async () => {
    const program = `for (const path of ${JSON.stringify(subpaths)})
      console.log(path, Object.keys(await import(path)).length > 0);`;
    expect(await runProgram("import-all.mjs", program)).toBe(
      subpaths.map((path) => `${path} true\n`).join(""),
    );
  });

  test("can be required from CommonJS", async () => {
    const program = `for (const path of ${JSON.stringify(subpaths)})
      console.log(path, Object.keys(require(path)).length > 0);`;
    expect(await runProgram("require-all.cjs", program)).toBe(
      subpaths.map((path) => `${path} true\n`).join(""),
    );
  });
});

describe("import 'nevertwice'", { timeout: 60_000 }, () => {
  test("loads only its own files and node:crypto", async () => {
    const foreign = await foreignModules('import "nevertwice";');
    expect(foreign).toEqual(["node:crypto"]);
  });

  test("opens four files, since each takes its time", async () => {
    const opened = await resolvedModules('import "nevertwice";');
    expect(opened.filter((url) => url.startsWith(pathToFileURL(installed).href)).length).toBe(4);
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
  test.each(["bundler", "nodenext"])("finds the types with moduleResolution %s", async (resolution) => {
    const module = resolution === "bundler" ? "esnext" : "nodenext";
    await compile(compiler, `typed-${resolution}`, TYPED, { module, moduleResolution: resolution });
  });

  test("decorates a method with a standard decorator, which then runs once", async () => {
    const program = await compile(compiler, "standard", DECORATED, { module: "nodenext" });
    expect(await run(process.execPath, [program], home)).toBe("1 42 42\n");
  });

  test("decorates a method under experimentalDecorators, which then runs once", async () => {
    const options = { module: "nodenext", experimentalDecorators: true };
    const program = await compile(compiler, "legacy", LEGACY_DECORATED, options);
    expect(await run(process.execPath, [program], home)).toBe("1 42 42\n");
  });
});

/** The files that a module imports, and the workers that it starts. */
function pathsIn(text: string): readonly string[] {
  return [...text.matchAll(/(?:from |import |import\(|new URL\()"(\.[^"]+)"/g)].map(
    ([, path]) => path as string,
  );
}

/** Compiles one strict program in a folder of its own, without anybody's ambient types; answers the path of its output. */
async function compile(compiler: string, name: string, program: string, options: object): Promise<string> {
  const folder = join(home, `${compiler}-${name}`);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(join(folder, "program.ts"), program);
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
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
  await run(process.execPath, [join(WORKSPACE, "node_modules", compiler, "bin/tsc"), "-p", folder], home);
  return join(folder, "out", "program.js");
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
