/**
 * Builds a Dockerfile without Docker: each stage is an empty root in which its steps run, and the programs of this
 * machine, mounted read-only, replace the base image. Only root can do this.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, posix, relative } from "node:path";
import { promisify } from "node:util";
import { type Instruction, ignoring, type Stage, stagesIn, variablesIn } from "./dockerfile.ts";

export interface Image {
  readonly root: string;
  readonly user: string;
  readonly env: Readonly<Record<string, string>>;
  /** ENTRYPOINT and CMD. */
  readonly command: readonly string[];
  readonly healthCheck: readonly string[];
  /** Starts it like a container: read-only root except its volumes, and its own network. */
  start(env: Readonly<Record<string, string>>): ChildProcess;
  /** Runs a program in a container that was started. */
  exec(container: ChildProcess, command: readonly string[]): Promise<{ readonly stdout: string }>;
}

interface Building {
  readonly root: string;
  env: Record<string, string>;
  folder: string;
  user: string;
  volumes: readonly string[];
  entrypoint: readonly string[];
  command: readonly string[];
  healthCheck: readonly string[];
}

export interface BuildOptions {
  readonly dockerfile: string;
  readonly context: string;
  /** An empty folder. */
  readonly into: string;
}

/** Why this machine cannot build the image; undefined if it can. */
export function whyNoImage(): string | undefined {
  if (process.platform !== "linux") return "roots of processes are changed on Linux only";
  if (process.getuid?.() !== 0) return "only root may change the root of a process";
  try {
    execFileSync("unshare", ["--mount", "--net", "sh", "-c", "ip link set lo up"], { stdio: "pipe" });
    return undefined;
  } catch (error) {
    return `unshare and ip are needed, and may be used: ${String(error)}`;
  }
}

export async function buildImage({ dockerfile, context, into }: BuildOptions): Promise<Image> {
  const isIgnored = ignoring(await readFile(`${dockerfile}.dockerignore`, "utf8"));
  const built = new Map<string, string>();
  let last: Building | undefined;
  for (const [index, stage] of stagesIn(await readFile(dockerfile, "utf8")).entries()) {
    const root = join(into, String(index));
    last = await buildStage(stage, root, (from) =>
      from === undefined
        ? { folder: context, isIgnored }
        : { folder: built.get(from) ?? "", isIgnored: never },
    );
    if (stage.name !== undefined) built.set(stage.name, root);
  }
  if (last === undefined) throw new Error(`${dockerfile} has no stage`);
  return imageOf(last);
}

const never = () => false;

interface Source {
  readonly folder: string;
  isIgnored(path: string): boolean;
}

async function buildStage(
  { instructions }: Stage,
  root: string,
  sourceOf: (from: string | undefined) => Source,
): Promise<Building> {
  await makeBase(root);
  const building: Building = {
    root,
    env: {},
    folder: "/",
    user: "root",
    volumes: [],
    entrypoint: [],
    command: [],
    healthCheck: [],
  };
  for (const instruction of instructions) await take(building, instruction, sourceOf);
  return building;
}

async function take(
  building: Building,
  { name, flags, text }: Instruction,
  sourceOf: (from: string | undefined) => Source,
): Promise<void> {
  const { root } = building;
  switch (name) {
    case "ENV":
      building.env = { ...building.env, ...variablesIn(text) };
      return;
    case "WORKDIR":
      building.folder = posix.resolve(building.folder, text);
      await mkdir(join(root, building.folder), { recursive: true });
      return;
    case "COPY":
      return copy(text, sourceOf(flags.from), building);
    case "RUN":
      return run(text, building);
    case "USER":
      building.user = text;
      return;
    case "VOLUME":
      building.volumes = JSON.parse(text);
      return;
    case "ENTRYPOINT":
      building.entrypoint = JSON.parse(text);
      return;
    case "CMD":
      building.command = JSON.parse(text);
      return;
    case "HEALTHCHECK":
      building.healthCheck = JSON.parse(text.replace(/^CMD /, ""));
      return;
    case "EXPOSE":
    case "STOPSIGNAL":
      return;
    default:
      throw new Error(`${name} is not known here: teach it to packaging/image.ts`);
  }
}

/** The content of the base image: programs and a user called node. */
async function makeBase(root: string): Promise<void> {
  for (const folder of ["usr", "etc", "proc", "dev", "tmp", "root", "opt/node", "npm"])
    await mkdir(join(root, folder), { recursive: true });
  for (const name of ["bin", "sbin", "lib", "lib64"])
    if (existsSync(`/${name}`)) await symlink(`usr/${name}`, join(root, name));
  await writeFile(join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/:/bin/sh\n");
  await writeFile(join(root, "etc/group"), "root:x:0:\nnode:x:1000:\n");
  for (const file of ["resolv.conf", "hosts", "nsswitch.conf"])
    if (existsSync(`/etc/${file}`)) await cp(`/etc/${file}`, join(root, "etc", file), { dereference: true });
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates) await cp(certificates, join(root, "etc/certificates.pem"), { dereference: true });
}

async function copy(text: string, { folder: from, isIgnored }: Source, building: Building): Promise<void> {
  const paths = text.split(/ +/);
  const to = paths.pop() ?? "";
  const target = join(building.root, posix.resolve(building.folder, to));
  for (const path of paths) {
    const source = join(from, path);
    const isFolder = (await stat(source)).isDirectory();
    const goal = isFolder || !(to.endsWith("/") || to === ".") ? target : join(target, basename(path));
    await mkdir(dirname(goal), { recursive: true });
    await cp(source, goal, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (each) => each === source || !isIgnored(relative(from, each)),
    });
  }
}

async function run(text: string, building: Building): Promise<void> {
  const cache = `mount --bind ${quoted(npmSetting("cache"))} ${quoted(join(building.root, "npm"))}`;
  const script = `${cache} && ${entering(building, ["sh", "-c", text])}`;
  try {
    await promisify(execFile)("unshare", ["--mount", "sh", "-c", script], {
      env: { ...building.env, ...ofBuilds() },
      maxBuffer: 16 << 20,
    });
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout?: string; readonly stderr?: string };
    throw new Error(`RUN ${text}\n${stdout}${stderr}`, { cause: error });
  }
}

/** The shell's words that end in the command, in the stage's root. They stand in a mount namespace of their own. */
function entering(
  { root, folder, user }: Pick<Building, "root" | "folder" | "user">,
  command: readonly string[],
): string {
  const mounts = [
    `mount --rbind /dev ${quoted(join(root, "dev"))}`,
    `mount --rbind /proc ${quoted(join(root, "proc"))}`,
    `mount --bind -o ro /usr ${quoted(join(root, "usr"))}`,
    `mount --bind -o ro ${quoted(dirname(dirname(process.execPath)))} ${quoted(join(root, "opt/node"))}`,
  ];
  return [...mounts, `exec ${chrooted({ root, folder, user }, command)}`].join(" && ");
}

function chrooted(
  { root, folder, user }: Pick<Building, "root" | "folder" | "user">,
  command: readonly string[],
): string {
  const inside = ["sh", "-c", `cd ${quoted(folder)} && exec "$@"`, "sh", ...command];
  return `chroot --userspec=${user} ${quoted(root)} ${inside.map(quoted).join(" ")}`;
}

function imageOf(building: Building): Image {
  const { root, user, env, entrypoint, command, healthCheck, volumes } = building;
  const path = { PATH: PATHS };
  return {
    root,
    user,
    env,
    command: [...entrypoint, ...command],
    healthCheck,
    start(more) {
      const isolated = [
        "ip link set lo up",
        `mount --bind ${quoted(root)} ${quoted(root)}`,
        ...volumes.map((each) => `mount --bind ${quoted(join(root, each))} ${quoted(join(root, each))}`),
        `mount -o remount,bind,ro ${quoted(root)}`,
      ];
      const script = [...isolated, entering(building, [...entrypoint, ...command])].join(" && ");
      return spawn("unshare", ["--mount", "--net", "sh", "-c", script], {
        env: { ...path, ...env, ...more },
        stdio: ["ignore", "pipe", "pipe"],
      });
    },
    exec: ({ pid }, program) =>
      promisify(execFile)(
        "nsenter",
        ["--target", String(pid), "--mount", "--net", "sh", "-c", chrooted(building, program)],
        { env: { ...path, ...env } },
      ),
  };
}

const PATHS = "/opt/node/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Packages that are in the cache are not fetched again. */
function ofBuilds(): Record<string, string> {
  return {
    PATH: PATHS,
    HOME: "/root",
    npm_config_cache: "/npm",
    npm_config_prefer_offline: "true",
    npm_config_registry: npmSetting("registry"),
    ...(process.env.NODE_EXTRA_CA_CERTS && { NODE_EXTRA_CA_CERTS: "/etc/certificates.pem" }),
  };
}

function npmSetting(name: string): string {
  return execFileSync("npm", ["config", "get", name], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  }).trim();
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
