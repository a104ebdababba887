/** Sends messages more than once, and kills processes while they consume them. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, type TestContext } from "vitest";
import { shortHash, toIdentity } from "../../src/core/identity.ts";
import type { Decision } from "../../src/core/policy.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/index.ts";
import { everyPage } from "../every-page.ts";
import { scratchFolder } from "../scratch-folder.ts";
import type { Broker, Queue } from "./deliveries-brokers.ts";
import type { Kill, Storm, Takeover } from "./deliveries-referee.ts";
import { notesIn, startLedger } from "./ledger.ts";
import { type Message, type Process, startProcess } from "./processes.ts";
import { openSubject, REDIS } from "./subjects.ts";
import type { Fault, Note } from "./workers/consumer.js";
import type { Try } from "./workers/ledger.js";

export interface Size {
  readonly deliveries: number;
  readonly processes: number;
  /** How many unacknowledged messages one process may have, and how many it works on at once. */
  readonly prefetch: number;
  readonly lanes: number;
  readonly workMs: number;
  readonly killEveryMs: number;
}

export interface Course {
  readonly onLapsed: "takeover" | "hold";
  readonly fault?: Fault;
}

export interface Ended extends Storm {
  readonly store: Store;
  readonly seconds: number;
  /** How often the consumers reported each status: `done`, `done-before`, `pending`, … */
  readonly deliveries: Readonly<Record<string, number>>;
  /** The messages that were held when all others were done, and how many of their deliveries were left. */
  readonly held: readonly string[];
  readonly leftHeld: number;
  /** Counts at the end of the trial. */
  readonly left: number;
  readonly rejected: number;
}

const NAMESPACE = "scale";
const NAME = "enter";
/** Long enough that only a dead process misses it, even on a busy machine. */
const LEASE_MS = 3_000;
const LATER_MS = 400;
/** After this time without a finished delivery, the trial assumes that no more will finish. */
const CALM_MS = 2_500;
const ROUNDS = 10;
const BUSY_WITHIN_MS = 1_000;

/** Of ten deliveries, seven are of new messages, two repeat a message that was sent before, and one is given back. */
export function sendings(deliveries: number): { messages: string[]; sent: string[] } {
  const messages = Array.from({ length: Math.ceil((deliveries * 7) / 10) }, (_, index) => String(index));
  const sent: string[] = [];
  for (const [index, id] of messages.entries()) {
    sent.push(id);
    // One repetition directly follows the original, so that both are delivered at the same time; the other comes much later.
    if (index % 7 === 1) sent.push(id);
    const before = messages[index - 1_000];
    if (before !== undefined && (index - 1_000) % 7 === 2) sent.push(before);
  }
  sent.push(...messages.slice(-1_000).filter((id) => Number(id) % 7 === 2));
  return { messages, sent };
}

export async function storm(
  context: TestContext,
  { worker, open }: Broker,
  size: Size,
  { onLapsed, fault }: Course,
): Promise<Ended> {
  const queue = await open(context);
  const url = await REDIS.create(context);
  const store = await openSubject(context, url);
  const folder = await scratchFolder(context);
  const ledger = await startLedger(context);
  const { messages, sent } = sendings(size.deliveries);
  await queue.publish(sent);

  const files: string[] = [];
  const crew = createCrew(size.processes, () => {
    files.push(join(folder, `${files.length}.jsonl`));
    return startProcess(context, "consumer.js", {
      source: { ...queue.source, prefetch: size.prefetch },
      ...{ broker: worker, url, namespace: NAMESPACE, name: NAME, fault },
      ...{ ledger: ledger.port, notes: files.at(-1), lanes: size.lanes, workMs: size.workMs },
      policies: { onLapsed, leaseMs: LEASE_MS, laterMs: LATER_MS, maxLaterMs: LATER_MS },
    });
  });
  const startedAt = performance.now();
  await crew.start();
  while ((await queue.waiting()) > 0) {
    const nextAt = performance.now() + size.killEveryMs;
    await crew.killOne();
    await sleep(Math.max(0, nextAt - performance.now()));
  }

  const guard = createGuard({ store, namespace: NAMESPACE, purgeEveryMs: 0, onLapsed: "hold" });
  context.onTestFinished(async () => void (await guard.close()));
  const copies = countsOf(sent);
  const held: string[] = [];
  const leftHeld = await settle(crew, queue, async () => {
    if (onLapsed === "takeover") return 0;
    const { records } = await everyPage(guard.listUnknown);
    held.splice(0, held.length, ...records.map(({ key = "" }) => key));
    return held.reduce((sum, id) => sum + (copies[id] ?? 0), 0);
  });
  await decide(guard, await ledger.report());
  const left = held.length === 0 ? leftHeld : await settle(crew, queue, async () => 0);
  const seconds = (performance.now() - startedAt) / 1_000;

  const notes = (await Promise.all(files.map((file) => notesIn<Note>(file)))).flat();
  const named = new Map(messages.map((id) => [keyHashOf(id), id]));
  return {
    ...{ messages, tries: await ledger.report(), kills: crew.kills, onLapsed },
    takeovers: notes.flatMap((note): Takeover[] =>
      note[0] === "taken-over" ? [{ message: named.get(note[1]) ?? note[1], fence: note[2] }] : [],
    ),
    deliveries: countsOf(notes.flatMap(([what, kind]) => (what === "delivery" ? [kind] : []))),
    ...{ store, seconds, held, leftHeld, left, rejected: await queue.rejected() },
  };
}

interface Ready extends Message {
  readonly kind: "ready";
  readonly pid: number;
}

interface Busy extends Message {
  readonly kind: "busy";
}

interface Progress extends Message {
  readonly kind: "progress";
  readonly progress: number;
}

interface Crew {
  readonly kills: Kill[];
  /** Starts processes until there are enough; running ones continue. */
  start(): Promise<void>;
  /** Kills the oldest process while it works, and resolves when another has replaced it. */
  killOne(): Promise<void>;
  /** How many deliveries have finished. */
  progress(): Promise<number>;
  /** Lets all processes end by themselves. */
  end(): Promise<void>;
}

function createCrew(count: number, startOne: () => Process): Crew {
  const kills: Kill[] = [];
  const members: { process: Process; ready: Promise<Ready> }[] = [];
  const add = (): void => {
    const process = startOne();
    members.push({ process, ready: process.next<Ready>("ready") });
  };
  return {
    kills,
    async start() {
      while (members.length < count) add();
      await Promise.all(members.map(({ ready }) => ready));
    },
    async killOne() {
      const victim = members.shift();
      if (victim === undefined) return;
      const { pid } = await victim.ready;
      // If little work is left, the process may never be busy.
      await Promise.race([victim.process.next<Busy>("busy").catch(() => {}), sleep(BUSY_WITHIN_MS)]);
      kills.push({ pid, at: Number(process.hrtime.bigint() / 1_000n) });
      victim.process.signal("SIGKILL");
      await victim.process.ended;
      // If processes start slowly, most of them must still be working.
      await this.start();
    },
    async progress() {
      await this.start();
      for (const { process } of members) process.tell("progress");
      const told = await Promise.all(members.map(({ process }) => process.next<Progress>("progress")));
      return told.reduce((sum, { progress }) => sum + progress, 0);
    },
    async end() {
      for (const { process } of members) process.tell("end");
      await Promise.all(members.splice(0).map(({ process }) => process.ended));
    },
  };
}

/** Lets all processes run until no delivery finishes any more, and stops them. Then the expected number must be left. */
async function settle(crew: Crew, queue: Queue, expected: () => Promise<number>): Promise<number> {
  for (let round = 1; ; round++) {
    await calm(crew);
    await crew.end();
    const left = await queue.left();
    if (left === (await expected()) || round === ROUNDS) return left;
  }
}

async function calm(crew: Crew): Promise<void> {
  let before = Number.NaN;
  let sinceMs = performance.now();
  while (performance.now() - sinceMs < CALM_MS) {
    const progress = await crew.progress();
    if (progress !== before) sinceMs = performance.now();
    before = progress;
    await sleep(100);
  }
}

/** Looks up each unknown message in the ledger, as an operator would, and decides by what it finds. */
async function decide(guard: Guard, tries: readonly Try[]): Promise<void> {
  const done = new Set(tries.map(({ message }) => message));
  const { records } = await everyPage(guard.listUnknown);
  for (const { key = "", fence } of records) {
    const decision: Decision = done.has(key) ? { status: "done", value: undefined } : { status: "not-done" };
    expect(await guard.resolve({ operation: NAME, scope: NAME, key, fence }, decision)).toBe(true);
  }
}

function keyHashOf(key: string): string {
  return shortHash(toIdentity({ namespace: NAMESPACE, scope: NAME, operation: NAME, key }).id);
}

function countsOf(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}
