/** Runs a network of nodes, and kills its processes at every stage of a message, one after another, until all messages are acknowledged. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "vitest";
import { shortHash, toIdentity } from "../../src/core/identity.ts";
import { compositeKey } from "../../src/core/key.ts";
import type { Store } from "../../src/core/store.ts";
import { createGuard, type Guard } from "../../src/index.ts";
import { everyPage } from "../every-page.ts";
import { scratchFolder } from "../scratch-folder.ts";
import type { Kill, Storm, Takeover } from "./deliveries-referee.ts";
import { notesIn, startLedger } from "./ledger.ts";
import { startProcess } from "./processes.ts";
import { openSubject, type Subject } from "./subjects.ts";
import type { Fault, Note } from "./workers/network.js";

/** Where a process is killed. */
export interface Point {
  readonly node: string;
  readonly stage: string;
}

export interface Size {
  /** How often a process is killed at each point. */
  readonly rounds: number;
  readonly processes: number;
  /** New messages for each process. */
  readonly messages: number;
}

export interface Ended extends Storm {
  readonly store: Store;
  readonly seconds: number;
  /** How often the networks reported each kind of event. */
  readonly told: Readonly<Record<string, number>>;
  /** Tries after all messages were acknowledged and then delivered once more. */
  readonly triesAfter: number;
  /** Claims that were never completed or abandoned. */
  readonly open: readonly string[];
}

export const NODES = ["price", "charge", "pack", "notify"] as const;
/** The stages of a message in a node with a key: `done` is after the effect and before the mark, `marked` is before the dispatch. */
const NODE_STAGES = ["arrived", "validated", "claimed", "decided", "done", "marked"];

export const POINTS: readonly Point[] = [
  { node: "orders", stage: "brought" },
  ...NODES.flatMap((node) => NODE_STAGES.map((stage) => ({ node, stage }))),
  { node: "price", stage: "sending" },
  { node: "price", stage: "sent" },
  { node: "orders", stage: "settled" },
  { node: "orders", stage: "acknowledged" },
];

const NAMESPACE = "scale";
const NETWORK = "shop";
/** Long enough that only a dead process misses it, even on a busy machine. */
const LEASE_MS = 3_000;
/** A process does not reach its point if another one handled all messages first. Then the point is tried once more. */
const TRIES = 5;

export async function killAtEveryStage(
  context: TestContext,
  subject: Subject,
  { rounds, processes, messages: fresh }: Size,
  { points = POINTS, fault }: { readonly points?: readonly Point[]; readonly fault?: Fault } = {},
): Promise<Ended> {
  const url = await subject.create(context);
  const store = await openSubject(context, url);
  const folder = await scratchFolder(context);
  const acknowledged = join(folder, "acknowledged");
  await writeFile(acknowledged, "");
  const ledger = await startLedger(context);
  const files: string[] = [];
  let count = 0;

  /** Delivers all messages, first from `own` on, then those before it. */
  async function runOne(own: number, more: object): Promise<readonly Note[]> {
    const notes = join(folder, `${files.length}.jsonl`);
    files.push(notes);
    await startProcess(context, "network.js", {
      ...{ url, namespace: NAMESPACE, leaseMs: LEASE_MS, ledger: ledger.port, fault },
      ...{ notes, acknowledged, own, count, bringsAll: false, ...more },
    }).ended;
    return notesIn<Note>(notes);
  }

  async function killAt(point: Point, nth: number): Promise<void> {
    for (let tries = 0; tries < TRIES; tries++) {
      const own = count;
      count += fresh;
      const notes = await runOne(own, { killed: { ...point, nth } });
      if (notes.some(([what]) => what === "killed")) return;
    }
  }

  const startedAt = performance.now();
  const left = Array.from({ length: rounds }, (_, round) =>
    points.map((point, index) => ({ point, nth: 1 + ((index + round) % 3) })),
  ).flat();
  const lane = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) await killAt(next.point, next.nth);
  };
  await Promise.all(Array.from({ length: processes }, lane));
  await Promise.all(Array.from({ length: processes }, () => runOne(0, {})));
  const seconds = (performance.now() - startedAt) / 1_000;
  const tries = await ledger.report();
  // With a fault the messages may never all be acknowledged, so there is no end to wait for.
  if (fault === undefined) await runOne(0, { bringsAll: true });
  const triesAfter = (await ledger.report()).length - tries.length;

  const notes = (await Promise.all(files.map((file) => notesIn<Note>(file)))).flat();
  const messages = Array.from({ length: count }, (_, index) => `order-${index}`);
  const effects = messages.flatMap((id) => NODES.map((node) => ({ id, node })));
  const named = new Map(effects.map(({ id, node }) => [keyHashOf(node, id), `${id} ${node}`]));
  const guard = createGuard({ store, namespace: NAMESPACE, purgeEveryMs: 0 });
  context.onTestFinished(async () => void (await guard.close()));
  return {
    messages: effects.map(({ id, node }) => `${id} ${node}`),
    tries,
    takeovers: notes.flatMap((note): Takeover[] =>
      note[0] === "taken-over" ? [{ message: named.get(note[1]) ?? note[1], fence: note[2] }] : [],
    ),
    kills: notes.flatMap((note): Kill[] => (note[0] === "killed" ? [{ pid: note[1], at: note[2] }] : [])),
    onLapsed: "takeover",
    ...{ store, seconds, triesAfter, told: countsOf(notes), open: await openIn(guard) },
  };
}

function keyHashOf(node: string, key: string): string {
  const scope = compositeKey(NETWORK, node).text;
  return shortHash(toIdentity({ namespace: NAMESPACE, scope, operation: `${NETWORK}/${node}`, key }).id);
}

async function openIn(guard: Guard): Promise<string[]> {
  const found: string[] = [];
  for (const state of ["pending", "lapsed", "released"] as const) {
    const { records } = await everyPage((page) => guard.list({ ...page, state }));
    found.push(...records.map(({ operation, key }) => `${state} ${operation} ${key}`));
  }
  return found;
}

function countsOf(notes: readonly Note[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [what, kind] of notes) if (what === "told") counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
