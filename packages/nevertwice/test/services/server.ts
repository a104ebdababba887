/**
 * Runs one private server process, with its own folder and port. It ends with the process that started it, and its folder
 * is removed.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { chmod, chown, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Clock, startClock } from "./clock.ts";
import { freePort } from "./ports.ts";

export interface Server {
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  /** Ends the server as its operator would, and removes its folder. May be called again, and after `kill`. */
  stop(): Promise<void>;
  /** Ends it as a crash would: SIGKILL to it and to its children. */
  kill(): Promise<void>;
  /** Stops it from answering, without closing a connection. */
  pause(): void;
  resume(): void;
  /** Starts it again on its port and folder, whether it was killed or still runs. */
  restart(): Promise<void>;
  /** Moves its clock, back if `ms` is negative. Only on a server started with `clock: true`. */
  stepClock(ms: number): void;
}

export interface Place {
  readonly folder: string;
  readonly port: number;
}

/** How one kind of server is run. */
export interface Plan {
  readonly name: string;
  /** Started as root, a server that refuses to be root runs as this user. */
  readonly user?: string;
  /** What the server logs once it accepts connections. Another process on its port would not log this. */
  readonly ready: RegExp;
  /** How long that may take on a busy machine. */
  readonly readyMs?: number;
  readonly stopSignal?: NodeJS.Signals;
  /** Give it a clock that `stepClock` moves. */
  readonly clock?: boolean | undefined;
  /** What else its environment holds. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly onDisk?: boolean | undefined;
  /** `said` is what it has logged until it was ready. */
  url(place: Place, said: string): string;
  command(place: Place): readonly [file: string, ...args: string[]];
  /** Called once, before the first start. `run` runs a program as the server's user. */
  prepare?(place: Place, run: (file: string, ...args: string[]) => Promise<unknown>): Promise<void>;
}

/** Settings of a server, in its own words: `{ appendonly: "yes" }`. */
export type Settings = Readonly<Record<string, string | number>>;

/** What every start function takes. */
export interface StartOptions {
  readonly settings?: Settings;
  readonly clock?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** Puts its files on a disk even if temporary folders are in memory. MariaDB maps a log in memory instead of writing it. */
  readonly onDisk?: boolean;
}

interface User {
  readonly uid: number;
  readonly gid: number;
}

interface Running {
  readonly child: ChildProcess;
  readonly hasEnded: Promise<void>;
  /** What it has logged until it was ready. */
  readonly said: string;
}

const DISK = "/var/tmp";
const READY_MS = 30_000;
const STOP_MS = 5_000;
const TRIES = 4;

export async function startServer(plan: Plan): Promise<Server> {
  for (let left = TRIES - 1; ; left--) {
    try {
      return await startOnce(plan);
    } catch (error) {
      // Another process may have taken the port before the server could bind it.
      const isTaken = /address already in use|bind failed|EADDRINUSE/i.test(String(error));
      if (!isTaken || left === 0) throw error;
    }
  }
}

async function startOnce(plan: Plan): Promise<Server> {
  const user = userNamed(plan.user);
  const folder = await mkdtemp(join(plan.onDisk ? DISK : tmpdir(), `nevertwice-${plan.name}-`));
  const guardian = startGuardian(folder);
  try {
    const place = { folder, port: await freePort() };
    if (user !== undefined) await chown(folder, user.uid, user.gid);
    const clock = plan.clock ? await startClock(folder) : undefined;
    const options = { cwd: folder, ...user, maxBuffer: 64 << 20 };
    await plan.prepare?.(place, (file, ...args) => promisify(execFile)(file, args, options));
    return await launch({ plan, place, user, guardian, clock });
  } catch (error) {
    await guardian.end();
    throw error;
  }
}

interface Launch {
  readonly plan: Plan;
  readonly place: Place;
  readonly user: User | undefined;
  readonly guardian: Guardian;
  readonly clock: Clock | undefined;
}

async function launch(given: Launch): Promise<Server> {
  const { plan, place, guardian, clock } = given;
  let running = await run(given);

  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const { child, hasEnded } = running;
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    signalAll(signal === "SIGKILL" ? family(child.pid) : [child.pid], signal);
    // A paused process gets no other signal before it continues.
    if (signal !== "SIGKILL") signalAll(family(child.pid), "SIGCONT");
    const late = setTimeout(() => signalAll(family(child.pid ?? 0), "SIGKILL"), STOP_MS);
    await hasEnded;
    clearTimeout(late);
  };

  return {
    ...place,
    url: plan.url(place, running.said),
    async stop() {
      await end(plan.stopSignal ?? "SIGTERM");
      await guardian.end();
    },
    kill: () => end("SIGKILL"),
    pause: () => signalAll(family(running.child.pid ?? 0), "SIGSTOP"),
    resume: () => signalAll(family(running.child.pid ?? 0), "SIGCONT"),
    async restart() {
      await end(plan.stopSignal ?? "SIGTERM");
      running = await run(given);
    },
    stepClock(ms) {
      if (clock === undefined) throw new Error(`${plan.name} was started without \`clock: true\``);
      clock.step(ms);
    },
  };
}

/** Resolves once the server takes connections. */
async function run({ plan, place, user, guardian, clock }: Launch): Promise<Running> {
  const [file, ...args] = plan.command(place);
  const child = spawn(file, args, {
    cwd: place.folder,
    env: { ...process.env, ...plan.env, ...clock?.env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
    ...user,
  });
  guardian.watch(child.pid);
  const hasEnded = new Promise<void>((resolve) => {
    child.once("error", () => resolve());
    child.once("close", () => {
      guardian.watch(undefined);
      resolve();
    });
  });
  const { readyMs = READY_MS } = plan;
  let output = "";
  await new Promise<void>((resolve, reject) => {
    const fail = (how: string): void => {
      clearTimeout(late);
      reject(new Error(`${plan.name} ${how}:\n${output}`));
    };
    const late = setTimeout(() => {
      signalAll(family(child.pid ?? 0), "SIGKILL");
      fail(`was not ready after ${readyMs} ms`);
    }, readyMs);
    const hear = (chunk: Buffer): void => {
      output = (output + chunk).slice(-20_000);
      if (!plan.ready.test(output)) return;
      clearTimeout(late);
      for (const stream of streams) stream.off("data", hear).resume();
      resolve();
    };
    const streams = [child.stdout, child.stderr];
    for (const stream of streams) stream.on("data", hear);
    child.once("error", (error) => fail(`could not be run (${error.message})`));
    child.once("close", () => fail("ended before it was ready"));
  });
  return { child, hasEnded, said: output };
}

interface Guardian {
  /** The process to end if this one dies; undefined: none. */
  watch(pid: number | undefined): void;
  /** Ends the process that is watched, and removes the folder. */
  end(): Promise<void>;
}

const GUARDIAN = `
  while read -r line; do pid=$line; done
  if [ -n "$pid" ]; then
    children=$(cat "/proc/$pid/task/"*/children 2>/dev/null)
    kill -s KILL -- "-$pid" $children 2>/dev/null
  fi
  rm -rf "$1"
`;

/**
 * A shell that waits for the end of its input, which comes when we close it or when this process dies without running a
 * handler, such as by SIGKILL. A server that is left behind would keep its port and memory. Children in sessions of their own
 * are killed one by one: those of Postgres follow it by themselves, but not while they are paused.
 */
function startGuardian(folder: string): Guardian {
  const shell = spawn("sh", ["-c", GUARDIAN, "sh", folder], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  shell.unref();
  const hasEnded = new Promise<void>((resolve) => shell.once("close", () => resolve()));
  // Once it has ended it has nothing left to watch.
  shell.stdin.on("error", () => {});
  return {
    watch: (pid) => shell.stdin.write(`${pid ?? ""}\n`),
    end() {
      shell.ref();
      shell.stdin.end();
      return hasEnded;
    },
  };
}

/** The process and all that came from it, itself first. Postgres puts its children in sessions of their own. */
function family(pid: number): readonly number[] {
  const parents = new Map<number, number>();
  for (const name of existsSync("/proc") ? readdirSync("/proc") : []) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const status = readFileSync(`/proc/${name}/stat`, "utf8");
      // The command's name is in brackets and may contain anything, also brackets.
      parents.set(Number(name), Number(status.slice(status.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {
      // It has ended.
    }
  }
  const found = [pid];
  for (const each of found) for (const [child, parent] of parents) if (parent === each) found.push(child);
  return found;
}

function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      if (pid > 0) process.kill(pid, signal);
    } catch {
      // It has ended.
    }
  }
}

/** Only root can run a server as another user; other users run it as themselves. */
function userNamed(name: string | undefined): User | undefined {
  if (name === undefined || process.getuid?.() !== 0) return undefined;
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((each) => each.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  if (uid === undefined)
    throw new Error(`${name} has no account here, and the server refuses to run as root`);
  return { uid: Number(uid), gid: Number(gid) };
}

/** Writes a file that the server's user may read, whatever our umask is. */
export async function writeShared(path: string, text: string): Promise<string> {
  await writeFile(path, text);
  await chmod(path, 0o644);
  return path;
}
