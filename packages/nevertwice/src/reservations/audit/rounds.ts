/**
 * Joins events, rows, keys and checkpoints in rounds: each round reads every page and keeps its own share of the names in
 * memory, so that memory stays the same however many rows there are. Checkpoints are read before events, and events before
 * rows and keys: the other half of what was written together is there by the time it is looked for.
 */
import { type Checkpoint, digestOfHashes, type JournalEvent } from "../journal.ts";
import { commitmentAnew, keyAnew, type Reading, resourceAnew } from "./anew.ts";
import { addTo, type Chain, openChain } from "./chain.ts";
import { type Findings, type Judgement, openJudgement } from "./findings.ts";
import { judgeCommitment } from "./judge-commitment.ts";
import { type Effect, judgeAbsentKey, judgeEffects, judgeKey } from "./judge-key.ts";
import { judgeResource, type Occupied } from "./judge-resource.ts";
import { entryOf, pagesOf, shareOf } from "./pages.ts";

export interface Counts {
  readonly commitments: number;
  readonly resources: number;
  readonly keys: number;
  readonly events: number;
  readonly checkpoints: number;
}

interface Collected {
  readonly row: Checkpoint;
  readonly hashes: string[];
  /** An event of another instant. */
  stray: string | undefined;
}

/** What a round keeps of its share. */
interface Share {
  isMine(name: string): boolean;
  readonly checkpoints: Map<string, Collected>;
  /** Checkpoints that events name and that were not there yet. */
  readonly unknown: Map<string, string>;
  readonly commitments: Map<string, Chain>;
  readonly resources: Map<string, Chain>;
  readonly effects: Map<string, Effect[]>;
  readonly occupied: Map<string, Occupied>;
}

const SUBJECT = /^(commitment|resource):(.*)$/s;
/** How many rows are read anew at once. */
const AT_ONCE = 16;

export async function inRounds(reading: Reading, findings: Findings, rowsAtOnce: number): Promise<Counts> {
  let events = 0;
  for await (const rows of eventPages(reading)) events += rows.length;
  let checkpoints = 0;
  for await (const rows of checkpointPages(reading)) checkpoints += rows.length;
  const rounds = Math.max(1, Math.ceil(Math.max(events, checkpoints) / rowsAtOnce));
  let counts: Counts | undefined;
  for (let round = 0; round < rounds; round++) {
    const share: Share = {
      isMine: (name) => shareOf(name, rounds) === round,
      checkpoints: new Map(),
      unknown: new Map(),
      commitments: new Map(),
      resources: new Map(),
      effects: new Map(),
      occupied: new Map(),
    };
    const counted = await oneRound(reading, findings, share, rowsAtOnce);
    counts ??= counted;
  }
  return counts as Counts;
}

async function oneRound(
  reading: Reading,
  findings: Findings,
  share: Share,
  rowsAtOnce: number,
): Promise<Counts> {
  let checkpoints = 0;
  for await (const rows of checkpointPages(reading)) {
    checkpoints += rows.length;
    for (const row of rows)
      if (share.isMine(row.id)) share.checkpoints.set(row.id, { row, hashes: [], stray: undefined });
  }
  let events = 0;
  for await (const rows of eventPages(reading)) {
    events += rows.length;
    for (const event of rows) remember(share, event);
    if (share.unknown.size > rowsAtOnce) await settleUnknown(reading, findings, share);
  }
  await settleUnknown(reading, findings, share);
  for (const collected of share.checkpoints.values()) findings.add(judgeCheckpoint(collected));
  share.checkpoints.clear();
  const commitments = await judgeCommitments(reading, findings, share);
  const resources = await judgeResources(reading, findings, share);
  const keys = await judgeKeys(reading, findings, share);
  return { commitments, resources, keys, events, checkpoints };
}

function remember(share: Share, event: JournalEvent): void {
  const { subject, checkpoint, hash, keyId, kind, at, detail } = event;
  const [, type, name] = SUBJECT.exec(subject) ?? [];
  const chains = type === "resource" ? share.resources : share.commitments;
  if (name !== undefined && share.isMine(name))
    addTo(
      entryOf(chains, name, () => openChain(subject)),
      event,
    );
  if (keyId !== undefined && share.isMine(keyId))
    entryOf(share.effects, keyId, () => []).push({ subject, kind, at, detail });
  if (!share.isMine(checkpoint)) return;
  const kept = share.checkpoints.get(checkpoint);
  if (kept === undefined) share.unknown.set(checkpoint, subject);
  else {
    kept.hashes.push(hash);
    if (kept.row.at !== at) kept.stray ??= `event ${event.number} of ${subject}`;
  }
}

/** What is still not there was never there, or was taken away: it was written together with its events. */
async function settleUnknown(reading: Reading, findings: Findings, { unknown }: Share): Promise<void> {
  if (unknown.size === 0) return;
  for await (const rows of checkpointPages(reading)) for (const { id } of rows) unknown.delete(id);
  const judgement = openJudgement();
  for (const [id, subject] of unknown)
    judgement.ask("J3", subject, false, `the checkpoint ${id} of its event is not there`);
  findings.add(judgement);
  unknown.clear();
}

function judgeCheckpoint({ row, hashes, stray }: Collected): Judgement {
  const judgement = openJudgement();
  const { id, events, digest } = row;
  const problem =
    events !== hashes.length || events === 0
      ? `it is over ${events} events, and ${hashes.length} are there`
      : digest !== digestOfHashes(hashes)
        ? "its events are not those it was made over"
        : stray && `${stray} is of another instant`;
  judgement.ask("J3", `checkpoint:${id}`, problem === undefined, () => problem as string);
  return judgement;
}

async function judgeCommitments(reading: Reading, findings: Findings, share: Share): Promise<number> {
  let count = 0;
  let previous: string | undefined;
  for await (const rows of pagesOf(reading, (query) => reading.store.commitments(query))) {
    const suspects: string[] = [];
    for (const row of rows) {
      count++;
      const { id, resource } = row;
      if (share.isMine(resource)) addUp(share, resource, row.occupied, row.placedAt);
      const isSecond = id === previous;
      if (share.isMine(id)) {
        const judgement = isSecond ? openJudgement() : judgeCommitment(id, row, share.commitments.get(id));
        share.commitments.delete(id);
        if (isSecond) judgement.ask("C9", `commitment:${id}`, false, "two rows have this id");
        if (judgement.problems.length === 0 || isSecond) findings.add(judgement);
        else suspects.push(id);
      }
      previous = id;
    }
    await anew(suspects, findings, "commitment:", (id) => commitmentAnew(reading, id));
  }
  await anew([...share.commitments.keys()], findings, "commitment:", (id) => commitmentAnew(reading, id));
  share.commitments.clear();
  return count;
}

function addUp({ occupied }: Share, resource: string, units: number, placedAt: number): void {
  const sum = entryOf(occupied, resource, () => ({ units: 0, lastPlacedAt: 0 }));
  sum.units += units;
  sum.lastPlacedAt = Math.max(sum.lastPlacedAt, placedAt);
}

async function judgeResources(reading: Reading, findings: Findings, share: Share): Promise<number> {
  let count = 0;
  for await (const rows of pagesOf(reading, (query) => reading.store.resources(query))) {
    count += rows.length;
    const suspects: string[] = [];
    for (const row of rows) {
      const { name } = row;
      if (!share.isMine(name)) continue;
      const judgement = judgeResource(name, row, share.resources.get(name), share.occupied.get(name));
      share.resources.delete(name);
      share.occupied.delete(name);
      if (judgement.problems.length === 0) findings.add(judgement);
      else suspects.push(name);
    }
    await anew(suspects, findings, "resource:", (name) => resourceAnew(reading, name));
  }
  const left = new Set([...share.resources.keys(), ...share.occupied.keys()]);
  await anew([...left], findings, "resource:", (name) => resourceAnew(reading, name));
  share.resources.clear();
  share.occupied.clear();
  return count;
}

async function judgeKeys(reading: Reading, findings: Findings, share: Share): Promise<number> {
  const { store, windows } = reading;
  const { effects } = share;
  for (const [id, known] of effects) findings.add(judgeEffects(id, known, windows));
  const met = new Set<string>();
  let count = 0;
  for await (const rows of pagesOf(reading, (query) => store.keys(query))) {
    count += rows.length;
    const now = await store.now();
    const suspects: string[] = [];
    for (const key of rows) {
      const { id } = key;
      if (!share.isMine(id)) continue;
      if (effects.has(id)) met.add(id);
      const judgement = judgeKey(key, effects.get(id) ?? [], now, windows);
      if (judgement.problems.length === 0) findings.add(judgement);
      else suspects.push(id);
    }
    await anew(suspects, findings, "key:", (id) => keyAnew(reading, id, effects.get(id) ?? []));
  }
  for (const id of met) effects.delete(id);
  await judgeAbsentKeys(reading, findings, effects);
  return count;
}

async function judgeAbsentKeys(
  reading: Reading,
  findings: Findings,
  effects: ReadonlyMap<string, readonly Effect[]>,
): Promise<void> {
  const now = await reading.store.now();
  const gone: string[] = [];
  for (const [id, known] of effects) {
    const judgement = judgeAbsentKey(id, known, now, reading.windows);
    if (judgement.problems.length === 0) findings.add(judgement);
    else gone.push(id);
  }
  await anew(gone, findings, "key:", (id) => keyAnew(reading, id, effects.get(id) ?? []));
}

async function anew(
  names: readonly string[],
  findings: Findings,
  prefix: string,
  judge: (name: string) => Promise<Judgement | undefined>,
): Promise<void> {
  for (let from = 0; from < names.length; from += AT_ONCE) {
    const some = names.slice(from, from + AT_ONCE);
    for (const [index, judgement] of (await Promise.all(some.map(judge))).entries())
      if (judgement === undefined) findings.leaveOpen(`${prefix}${some[index]}`);
      else findings.add(judgement);
  }
}

function eventPages(reading: Reading): AsyncGenerator<readonly JournalEvent[]> {
  return pagesOf(reading, (query) => reading.store.events(query));
}

function checkpointPages(reading: Reading): AsyncGenerator<readonly Checkpoint[]> {
  return pagesOf(reading, (query) => reading.store.checkpoints(query));
}
