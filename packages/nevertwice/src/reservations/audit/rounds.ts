/**
 * Joins events, rows, keys and checkpoints in rounds. Each round reads every page and keeps one share of the names in
 * memory, so that memory does not grow with the store. Checkpoints are read before events, and events before rows and
 * keys: rows that were committed together with an event are visible by the time they are read.
 */
import type { JournalEvent } from "../journal.ts";
import { type AnchorCheck, createAnchorCheck } from "./anchor.ts";
import { addEvent, type Chain, judgeChain, openChain } from "./chain.ts";
import {
  addToCheckpoint,
  type CheckpointShare,
  checkpointPages,
  judgeCheckpoint,
  settleUnknown,
} from "./checkpoints.ts";
import type { AuditContext } from "./context.ts";
import { type Findings, type Judgement, openJudgement } from "./findings.ts";
import type { Effect } from "./judge-answer.ts";
import { judgeCommitment, judgeCommitmentChain } from "./judge-commitment.ts";
import { erasedKeys, judgeAbsentKey, judgeEffects, judgeKey } from "./judge-key.ts";
import { judgeResource, judgeResourceChain, type OccupiedUnits } from "./judge-resource.ts";
import { addToLedger, createLinks, type Ledger, type Links } from "./ledger.ts";
import { getOrCreate, scanPages, shareIndex } from "./page-scan.ts";
import { recheckCommitment, recheckKey, recheckResource } from "./recheck.ts";
import { createRowTally, type RowTally } from "./row-tally.ts";

/** How many records there are of each kind. */
export interface Counts {
  /** Commitments: holds, and what became of them. */
  readonly commitments: number;
  /** Resources that were declared or used. */
  readonly resources: number;
  /** Stored keys with their answers. */
  readonly keys: number;
  /** Events of the journal. */
  readonly events: number;
  /** Checkpoints of the journal. */
  readonly checkpoints: number;
}

/** What a round keeps in memory of its share of the names. */
interface RoundShare extends RowTally, CheckpointShare {
  isMine(name: string): boolean;
  readonly commitments: Map<string, Chain>;
  readonly resources: Map<string, Chain>;
  readonly effects: Map<string, Effect[]>;
  /** The chain of each resource. */
  readonly ledgers: Map<string, Ledger>;
  readonly links: Links;
  readonly anchored: AnchorCheck;
  /** The recordings of keys whose requester was erased, by an event. */
  readonly erasedKeys: Set<string>;
  /** Checks of refusals that belong to no resource. */
  readonly requests: Judgement;
  readonly occupied: Map<string, OccupiedUnits>;
}

const SUBJECT = /^(commitment|resource|request):(.*)$/s;
/** How many records are rechecked at the same time. */
const AT_ONCE = 16;

export async function auditInRounds(
  context: AuditContext,
  findings: Findings,
  rowsAtOnce: number,
): Promise<Counts> {
  let events = 0;
  for await (const rows of eventPages(context)) events += rows.length;
  let checkpoints = 0;
  for await (const rows of checkpointPages(context)) checkpoints += rows.length;
  const rounds = Math.max(1, Math.ceil(Math.max(events, checkpoints) / rowsAtOnce));
  let counts: Counts | undefined;
  for (let round = 0; round < rounds; round++) {
    const isMine = (name: string) => shareIndex(name, rounds) === round;
    const share: RoundShare = {
      // Every round reads every row, so only the first round reports rows that cannot be read.
      ...createRowTally(isMine, round === 0 ? findings : undefined),
      isMine,
      checkpoints: new Map(),
      unknown: new Map(),
      commitments: new Map(),
      resources: new Map(),
      effects: new Map(),
      ledgers: new Map(),
      links: createLinks(isMine),
      anchored: createAnchorCheck(context.anchor, isMine),
      erasedKeys: new Set(),
      requests: openJudgement(),
      occupied: new Map(),
    };
    const counted = await runRound(context, findings, share, rowsAtOnce);
    counts ??= counted;
  }
  return counts as Counts;
}

async function runRound(
  context: AuditContext,
  findings: Findings,
  share: RoundShare,
  rowsAtOnce: number,
): Promise<Counts> {
  for await (const rows of checkpointPages(share.withTally(context, "checkpoint"))) {
    share.count("checkpoint", rows.length);
    for (const row of rows)
      if (share.isMine(row.id)) share.checkpoints.set(row.id, { row, hashes: [], stray: undefined });
  }
  for await (const rows of eventPages(share.withTally(context, "event"))) {
    share.count("event", rows.length);
    for (const event of rows) addToShare(share, event);
    if (share.unknown.size > rowsAtOnce)
      await settleUnknown(context, findings, share.unknown, share.isUnreadable);
  }
  await settleUnknown(context, findings, share.unknown, share.isUnreadable);
  await settleLinks(context, findings, share);
  findings.add(share.requests);
  findings.add(share.anchored.judge());
  for (const collected of share.checkpoints.values()) findings.add(judgeCheckpoint(collected));
  share.checkpoints.clear();
  await judgeCommitments(context, findings, share);
  await judgeResources(context, findings, share);
  await judgeKeys(context, findings, share);
  const { commitment, resource, key, event, checkpoint } = share.totals();
  return { commitments: commitment, resources: resource, keys: key, events: event, checkpoints: checkpoint };
}

function addToShare(share: RoundShare, event: JournalEvent): void {
  const { subject, checkpoint, keyId, kind, at, detail, resource } = event;
  const [, type, name] = SUBJECT.exec(subject) ?? [];
  const chains = type === "resource" ? share.resources : share.commitments;
  if (name === undefined || type === "request") {
    if (share.isMine(subject)) judgeAlone(share.requests, event);
  } else if (share.isMine(name))
    addEvent(
      getOrCreate(chains, name, () => openChain(subject, resource)),
      event,
    );
  share.links.add(event);
  share.anchored.add(event);
  if (resource !== undefined && share.isMine(resource))
    addToLedger(
      getOrCreate(share.ledgers, resource, () => ({ count: 0, last: 0, hash: "" })),
      event,
    );
  for (const erased of erasedKeys(event)) if (share.isMine(erased.id)) share.erasedKeys.add(erased.recording);
  if (keyId !== undefined && share.isMine(keyId))
    getOrCreate(share.effects, keyId, () => []).push({ subject, kind, at, detail });
  if (share.isMine(checkpoint)) addToCheckpoint(share, event);
}

/** Judges an event that belongs to no resource: it is the only one of its request. */
function judgeAlone(judgement: Judgement, event: JournalEvent): void {
  const { kind, number } = event;
  const isRequest = event.subject.startsWith("request:");
  const subject = isRequest ? event.subject : `event:${event.subject} ${number}`;
  const chain = openChain(subject, undefined);
  addEvent(chain, event);
  judgeChain(judgement, chain);
  const isAlone = isRequest && number === 1 && kind === "refused";
  judgement.check("C3", subject, isAlone, `${kind} cannot happen to ${subject}`);
}

/** Reads the events again if a link lacks one: it may have been committed after its page was read. */
async function settleLinks(context: AuditContext, findings: Findings, { links }: RoundShare): Promise<void> {
  if (links.areIncomplete())
    for await (const rows of eventPages(context)) for (const event of rows) links.addLate(event);
  findings.add(links.judge());
}

async function judgeCommitments(context: AuditContext, findings: Findings, share: RoundShare): Promise<void> {
  let previous: string | undefined;
  const tallied = share.withTally(context, "commitment");
  for await (const rows of scanPages(tallied, (query) => context.store.commitments(query))) {
    share.count("commitment", rows.length);
    const suspects: string[] = [];
    for (const row of rows) {
      const { id, resource } = row;
      if (share.isMine(resource)) addOccupied(share, resource, row.occupied, row.placedAt);
      const isSecond = id === previous;
      if (share.isMine(id)) {
        const judgement = isSecond ? openJudgement() : judgeCommitment(id, row, share.commitments.get(id));
        share.commitments.delete(id);
        if (isSecond) judgement.check("C9", `commitment:${id}`, false, "two rows have this id");
        if (judgement.problems.length === 0 || isSecond) findings.add(judgement);
        else suspects.push(id);
      }
      previous = id;
    }
    await recheckAll(suspects, findings, "commitment:", (id) => recheckCommitment(context, id));
  }
  for (const [id, chain] of share.commitments) {
    if (!share.isUnreadable("commitment", id)) continue;
    findings.add(judgeCommitmentChain(id, chain));
    share.commitments.delete(id);
  }
  await recheckAll([...share.commitments.keys()], findings, "commitment:", (id) =>
    recheckCommitment(context, id),
  );
  share.commitments.clear();
}

function addOccupied({ occupied }: RoundShare, resource: string, units: number, placedAt: number): void {
  const sum = getOrCreate(occupied, resource, () => ({ units: 0, lastPlacedAt: 0 }));
  sum.units += units;
  sum.lastPlacedAt = Math.max(sum.lastPlacedAt, placedAt);
}

async function judgeResources(context: AuditContext, findings: Findings, share: RoundShare): Promise<void> {
  const tallied = share.withTally(context, "resource");
  for await (const rows of scanPages(tallied, (query) => context.store.resources(query))) {
    share.count("resource", rows.length);
    const suspects: string[] = [];
    for (const row of rows) {
      const { name } = row;
      if (!share.isMine(name)) continue;
      const judgement = judgeResource(name, row, {
        chain: share.resources.get(name),
        occupied: share.occupied.get(name),
        ledger: share.ledgers.get(name),
      });
      for (const facts of [share.resources, share.occupied, share.ledgers]) facts.delete(name);
      if (judgement.problems.length === 0) findings.add(judgement);
      else suspects.push(name);
    }
    await recheckAll(suspects, findings, "resource:", (name) => recheckResource(context, name));
  }
  for (const [name, chain] of share.resources)
    if (share.isUnreadable("resource", name))
      findings.add(judgeResourceChain(name, chain, share.occupied.get(name)));
  const left = new Set(
    [share.resources, share.occupied, share.ledgers].flatMap((facts) => [...facts.keys()]),
  );
  const absent = [...left].filter((name) => !share.isUnreadable("resource", name));
  await recheckAll(absent, findings, "resource:", (name) => recheckResource(context, name));
  for (const facts of [share.resources, share.occupied, share.ledgers]) facts.clear();
}

async function judgeKeys(context: AuditContext, findings: Findings, share: RoundShare): Promise<void> {
  const { store, windows } = context;
  const { effects, erasedKeys: erased } = share;
  for (const [id, known] of effects) findings.add(judgeEffects(id, known, windows));
  const met = new Set<string>();
  for await (const rows of scanPages(share.withTally(context, "key"), (query) => store.keys(query))) {
    share.count("key", rows.length);
    const now = await store.now();
    const suspects: string[] = [];
    for (const key of rows) {
      const { id } = key;
      if (!share.isMine(id)) continue;
      if (effects.has(id)) met.add(id);
      const judgement = judgeKey(key, effects.get(id) ?? [], now, windows, erased);
      if (judgement.problems.length === 0) findings.add(judgement);
      else suspects.push(id);
    }
    await recheckAll(suspects, findings, "key:", (id) =>
      recheckKey(context, id, effects.get(id) ?? [], erased),
    );
  }
  for (const id of effects.keys()) if (met.has(id) || share.isUnreadable("key", id)) effects.delete(id);
  await judgeAbsentKeys(context, findings, effects, erased);
}

async function judgeAbsentKeys(
  context: AuditContext,
  findings: Findings,
  effects: ReadonlyMap<string, readonly Effect[]>,
  erased: ReadonlySet<string>,
): Promise<void> {
  const now = await context.store.now();
  const gone: string[] = [];
  for (const [id, known] of effects) {
    const judgement = judgeAbsentKey(id, known, now, context.windows);
    if (judgement.problems.length === 0) findings.add(judgement);
    else gone.push(id);
  }
  await recheckAll(gone, findings, "key:", (id) => recheckKey(context, id, effects.get(id) ?? [], erased));
}

async function recheckAll(
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

function eventPages(context: AuditContext): AsyncGenerator<readonly JournalEvent[]> {
  return scanPages(context, (query) => context.store.events(query));
}
