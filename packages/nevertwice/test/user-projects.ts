/** Projects in `examples/` as their readers have them: copied into a folder of their own, with the packed package. */
import { execFile } from "node:child_process";
import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const WORKSPACE = fileURLToPath(new URL("../../..", import.meta.url));

/** What a project's own folder has, and the repository does not. */
const MADE = new Set(["node_modules", "out", "dist", ".next", ".wrangler"]);

export interface Manifest {
  readonly dependencies: Record<string, string>;
  readonly devDependencies: Record<string, string>;
  readonly scripts: Record<string, string>;
  readonly overrides?: Record<string, string>;
}

/** Builds and packs the package, and returns the path of the tarball in this folder. */
export function packPackage(into: string): Promise<string> {
  return pack(into);
}

/** The same with the build as it is, and without the readme. */
export function packBuild(into: string): Promise<string> {
  return pack(into, "--ignore-scripts");
}

async function pack(into: string, ...more: readonly string[]): Promise<string> {
  const args = ["pack", "--silent", "--pack-destination", into, ...more];
  const printed = await run("npm", args, join(WORKSPACE, "packages/nevertwice"));
  return join(into, printed.trim().split("\n").at(-1) as string);
}

/** What the package itself depends on. */
const OWN = ["@noble/hashes", "smol-toml"];

/** Puts the packed package into a folder `node_modules`, with what it depends on, without npm. */
export async function unpackInto(modules: string, tarball: string): Promise<void> {
  const folder = join(modules, "nevertwice");
  await mkdir(folder, { recursive: true });
  await run("tar", ["xzf", tarball, "--strip-components=1", "-C", folder], modules);
  await Promise.all(OWN.map((name) => link(name, join(folder, "node_modules"))));
}

/** Puts a package that the repository has installed into a folder `node_modules`. */
export async function link(name: string, modules: string): Promise<void> {
  await mkdir(dirname(join(modules, name)), { recursive: true });
  await symlink(join(WORKSPACE, "node_modules", name), join(modules, name));
}

export async function copyProject(name: string, into: string): Promise<void> {
  const from = join(WORKSPACE, "examples", name);
  const filter = (path: string) => !MADE.has(path.slice(from.length + 1).split("/")[0] ?? "");
  await cp(from, into, { recursive: true, filter });
}

export async function readManifest(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
}

export async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  await writeFile(join(folder, "package.json"), JSON.stringify(manifest, undefined, 2));
}

export async function install(folder: string, ...packages: string[]): Promise<void> {
  await run("npm", ["install", "--no-audit", "--no-fund", "--no-package-lock", ...packages], folder);
}

/** Installs the npm package that has only the binary of Node, and returns the folder of the binary. */
export async function installNode(major: number, folder: string): Promise<string> {
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true }));
  const name = `node-${process.platform}-${process.arch}`;
  await install(folder, "--ignore-scripts", `${name}@${major}`);
  return join(folder, "node_modules", name, "bin");
}

/** The name and version of a package that is installed in the folder. */
export async function versionIn(folder: string, name: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(folder, "node_modules", name, "package.json"), "utf8"));
  return `${name} ${manifest.version}`;
}

/** Returns what the program printed. If it fails, the error has everything that it said. */
export function run(
  program: string,
  args: readonly string[],
  cwd: string,
  more: NodeJS.ProcessEnv = {},
): Promise<string> {
  // Set by the runner, and read by the tests' own runner.
  const { NODE_ENV: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
  return new Promise((resolve, reject) => {
    const options = { cwd, env: { ...env, ...more }, maxBuffer: 16 * 1024 * 1024 };
    execFile(program, args, options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${program} ${args.join(" ")}\n${stdout}\n${stderr}`, { cause: error }));
    });
  });
}
