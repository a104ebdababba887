/**
 * Starts processes that run effects, kills every one of them, and lets a last one finish what they left. Which point a process
 * is killed at, and which keys it gets, follows from the seed; what the processes do at the same time does not.
 */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Random, seededRandom } from "../../src/testing/random.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { type Ask, type Delivery, type EffectNote, readNotes } from "./effects-referee.ts";
import type { EffectSubject } from "./effects-subjects.ts";
import { type Process, startProcess } from "./processes.ts";
import type { Scene } from "./subjects.ts";
import type { Phase, Point } from "./workers/effects/points.js";

export interface Killing {
  readonly kills: number;
  readonly seed: number;
  /** The folder of the built library. */
  readonly library: string;
  /** Kill only at these statements, where a planted bug shows. Default: those of the subject, and at random. */
  readonly statements?: readonly Point["statement"][];
  /** The same for the phases of a statement. Default: all. */
  readonly phases?: readonly Phase[] | undefined;
  /** How often a surviving process tries each key. Default: until it must be done. */
  readonly tries?: number;
}

export interface Killed {
  readonly problems: readonly string[];
  readonly keys: number;
  readonly kills: number;
  /** How many processes were killed at each point. */
  readonly points: Readonly<Record<string, number>>;
  /** What the processes were told, and how often. */
  readonly answers: Readonly<Record<string, number>>;
}

/** Processes of a subject that run at the same time, and contend for some of the keys. */
const PROCESSES = 3;
/** Processes of all subjects that run at the same time. */
const slots = createSlots(5);
const KEYS_PER_PROCESS = 12;
const PHASES: readonly Phase[] = ["before", "sent", "answered"];
/** How many of the processes are killed at a random moment instead of at a named point. */
const RANDOM_SHARE = 1 / 3;
/** A process reaches each point of its first keys before it is killed at the last. */
const MAX_NTH = 6;
const RANDOM_WITHIN_MS = 60;
/** After this the claim of a killed process has lapsed. Until then its key is pending. */
const LAPSED_MS = 3_400;
/** Processes that finish what the killed ones left: one for each of so many kills, and at most so many. */
const KILLS_PER_SURVIVOR = 10;
const MAX_SURVIVORS = 2;

export async function killMany(scene: Scene, subject: EffectSubject, killing: Killing): Promise<Killed> {
  const url = await subject.database.create(scene);
  await subject.prepare?.(url);
  const folder = await scratchFolder(scene as never);
  const keys = createKeys(seededRandom(killing.seed));
  const random = seededRandom(killing.seed + 1);
  const asks: Ask[] = [];
  const deliveries: Delivery[] = [];
  const points: Record<string, number> = {};
  const running = new Set<() => unknown>();
  scene.onTestFinished(() => {
    for (const end of running) end();
  });
  let started = 0;
  let killed = 0;

  async function withProcess(more: object, use: (process: Process) => Promise<void>): Promise<void> {
    const notes = join(folder, String(++started));
    const ends: (() => unknown)[] = [];
    const onTestFinished = (end: () => unknown) => {
      ends.push(end);
      running.add(end);
    };
    const { door, driver } = subject;
    const options = { door, driver, url, library: killing.library, notes, ...more };
    const process = startProcess({ onTestFinished } as never, "effects.js", options);
    await use(process);
    await process.ended;
    for (const end of ends) running.delete(end);
    const text = await readFile(notes, "utf8").catch(() => "");
    await rm(notes, { force: true });
    // The last line of a killed process may be incomplete.
    const lines = text.split("\n").slice(0, -1);
    const { asks: told, deliveries: delivered } = readNotes(
      lines.map((line) => JSON.parse(line) as EffectNote),
    );
    deliveries.push(...delivered);
    for (const ask of told) if (ask.told?.answer === "done") keys.finish(ask.key);
    for (const ask of told) if (ask.told === undefined) keys.left(ask.key);
    asks.push(...told);
  }

  async function killOne(): Promise<void> {
    const statements = killing.statements ?? subject.statements;
    const isRandom = killing.statements === undefined && random.chance(RANDOM_SHARE);
    const statement = random.pick(statements);
    const phase = random.pick(killing.phases ?? PHASES);
    const point = isRandom ? undefined : { statement, phase, nth: random.between(1, MAX_NTH) };
    const afterMs = random.between(0, RANDOM_WITHIN_MS);
    let name = point ? `${phase} ${statement}` : "at random";
    await withProcess({ keys: keys.some(KEYS_PER_PROCESS), point }, async (process) => {
      const idle = process.next("idle").then(
        () => "idle",
        () => "dead",
      );
      if (isRandom) {
        await process.next("ready").catch(() => {});
        await Promise.race([sleep(afterMs), idle]);
      } else if ((await idle) === "idle") name = "at rest";
      process.signal("SIGKILL");
    });
    killed++;
    points[name] = (points[name] ?? 0) + 1;
  }

  let left = killing.kills;
  const lane = async () => {
    while (left-- > 0) await slots.use(killOne);
  };
  await Promise.all(Array.from({ length: PROCESSES }, lane));
  const open = keys.open();
  const survivors = Math.min(MAX_SURVIVORS, Math.ceil(killing.kills / KILLS_PER_SURVIVOR));
  const share = Math.ceil(open.length / survivors);
  const shares = Array.from({ length: survivors }, (_, index) =>
    open.slice(index * share, (index + 1) * share),
  );
  await Promise.all(
    shares.map((some) => withProcess({ keys: some, isSurvivor: true, tries: killing.tries }, async () => {})),
  );

  const answers: Record<string, number> = {};
  for (const { told } of asks) {
    const answer = told?.answer ?? "killed";
    answers[answer] = (answers[answer] ?? 0) + 1;
  }
  const problems = subject.judge({
    asks,
    deliveries,
    rows: await subject.database.rows(url),
    keys: keys.all(),
  });
  return { problems, keys: keys.all().length, kills: killed, points, answers };
}

/** The keys of a trial: which are done, and which are left by a killed process. */
function createKeys(random: Random) {
  const all: string[] = [];
  const open = new Map<string, { dueAt: number }>();
  const finished: string[] = [];

  return {
    all: () => all,
    open: () => [...open.keys()],
    /** Mostly keys that can be done now: left ones whose claim has lapsed, and new ones. A few are done or pending. */
    some(count: number): readonly string[] {
      const now = performance.now();
      const left = [...open]
        .filter(([, { dueAt }]) => dueAt < now || random.chance(1 / 8))
        .map(([key]) => key);
      const picked = left.slice(0, count - 4);
      if (finished.length > 0) picked.push(random.pick(finished));
      while (picked.length < count) {
        const key = `key ${all.length}`;
        all.push(key);
        open.set(key, { dueAt: 0 });
        picked.push(key);
      }
      return picked;
    },
    left(key: string): void {
      if (open.has(key)) open.set(key, { dueAt: performance.now() + LAPSED_MS });
    },
    finish(key: string): void {
      if (open.delete(key)) finished.push(key);
    },
  };
}

/** At most `count` uses at the same time; the others wait their turn. */
function createSlots(count: number) {
  const waiting: (() => void)[] = [];
  let free = count;
  return {
    async use(run: () => Promise<void>): Promise<void> {
      if (free > 0) free--;
      else await new Promise<void>((go) => void waiting.push(go));
      try {
        await run();
      } finally {
        const next = waiting.shift();
        if (next === undefined) free++;
        else next();
      }
    },
  };
}
