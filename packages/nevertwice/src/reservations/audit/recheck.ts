/**
 * Rechecks a record that looked wrong before it is reported. The pages of a store are read at different times, so a
 * transaction in between can make healthy rows disagree. Chains only grow, and rows count their events: a row that is the
 * same before and after its chain was read did not change meanwhile. A record that changes every time is left open.
 */
import { isName } from "../commitment.ts";
import { commitmentSubject, requestSubject, resourceSubject, unboundRequest } from "../journal.ts";
import type { KeptResource, KeyRecord } from "../store.ts";
import { addEvent, type Chain, openChain } from "./chain.ts";
import type { AuditContext } from "./context.ts";
import type { Judgement } from "./findings.ts";
import type { Effect } from "./judge-answer.ts";
import { judgeCommitment } from "./judge-commitment.ts";
import { erasedKeys, judgeAbsentKey, judgeKey } from "./judge-key.ts";
import { judgeResource, type OccupiedUnits } from "./judge-resource.ts";
import { scanPages } from "./page-scan.ts";

/** How often a record is read before it is left open. */
const TRIES = 5;

/** Undefined if the record changed during every try. */
export async function recheckCommitment(context: AuditContext, id: string): Promise<Judgement | undefined> {
  const { store, namespace } = context;
  let { commitment } = await store.get(namespace, id);
  for (let tries = 0; tries < TRIES; tries++) {
    const chain = await loadChain(context, commitmentSubject(id));
    const { commitment: after } = await store.get(namespace, id);
    if (isSame(commitment, after)) return judgeCommitment(id, commitment, chain);
    commitment = after;
  }
  return undefined;
}

/**
 * Every event of a resource changes its row, so a row that is the same before and after its commitments and its own events
 * were read belongs to them. Its last event is the last one of a commitment, or its own.
 */
export async function recheckResource(context: AuditContext, name: string): Promise<Judgement | undefined> {
  let row = await loadResource(context, name);
  for (let tries = 0; tries < TRIES; tries++) {
    const sum = await sumCommitments(context, name, row?.lastHash);
    const chain = await loadChain(context, resourceSubject(name));
    const later = await loadResource(context, name);
    if (isSame(row, later)) {
      const occupied = sum.count === 0 ? undefined : sum;
      const count = sum.events + (chain?.count ?? 0);
      const end = sum.last === undefined ? chain : await loadChain(context, commitmentSubject(sum.last));
      const ledger =
        count === 0 ? undefined : { count, last: end?.lastEntry ?? 0, hash: end?.lastHash ?? "" };
      return judgeResource(name, row, { chain, occupied, ledger });
    }
    row = later;
  }
  return undefined;
}

/** `effects` are the known events of the key. */
export async function recheckKey(
  context: AuditContext,
  id: string,
  effects: readonly Effect[],
  erased: ReadonlySet<string>,
): Promise<Judgement | undefined> {
  const { store, windows } = context;
  let key = await loadKey(context, id);
  for (let tries = 0; tries < TRIES; tries++) {
    const late = new Set(erased);
    const known = key === undefined ? effects : await loadEffects(context, key, effects, late);
    const after = await loadKey(context, id);
    const now = await store.now();
    if (key?.recordedAt === after?.recordedAt && key?.salt === after?.salt)
      return key === undefined
        ? judgeAbsentKey(id, known, now, windows)
        : judgeKey(key, known, now, windows, late);
    key = after;
  }
  return undefined;
}

async function loadChain(context: AuditContext, subject: string): Promise<Chain | undefined> {
  let chain: Chain | undefined;
  for await (const rows of scanPages(context, (query) => context.store.events({ ...query, subject })))
    for (const event of rows) {
      chain ??= openChain(subject, event.resource);
      addEvent(chain, event);
    }
  return chain;
}

async function loadResource(
  { store, namespace }: AuditContext,
  name: string,
): Promise<KeptResource | undefined> {
  return (await store.resources({ namespace, name, limit: 1 })).rows[0];
}

export async function loadKey(context: AuditContext, id: string): Promise<KeyRecord | undefined> {
  const { store, namespace } = context;
  const { rows, unreadable } = await store.keys({ namespace, id, limit: 1 });
  if (unreadable !== undefined) context.notice?.(unreadable);
  return rows[0];
}

interface CommitmentSum extends OccupiedUnits {
  events: number;
  count: number;
  /** The commitment whose last event has the hash `head`, if there is one. */
  last: string | undefined;
}

async function sumCommitments(
  context: AuditContext,
  resource: string,
  head: string | undefined,
): Promise<CommitmentSum> {
  const sum: CommitmentSum = { units: 0, lastPlacedAt: 0, events: 0, count: 0, last: undefined };
  for await (const rows of scanPages(context, (query) => context.store.commitments({ ...query, resource })))
    for (const { id, occupied, placedAt, events, lastHash } of rows) {
      sum.units += occupied;
      sum.lastPlacedAt = Math.max(sum.lastPlacedAt, placedAt);
      sum.events += events;
      sum.count++;
      if (lastHash === head) sum.last = id;
    }
  return sum;
}

/** The known events of a key, and its events among those of the subject that it changed or was refused for. Adds the erasures among them to `erased`. */
async function loadEffects(
  context: AuditContext,
  key: KeyRecord,
  known: readonly Effect[],
  erased: Set<string>,
): Promise<readonly Effect[]> {
  const subject = await findSubject(context, key);
  const effects = known.filter((effect) => effect.subject !== subject);
  for await (const rows of scanPages(context, (query) => context.store.events({ ...query, subject })))
    for (const event of rows) {
      const { keyId, kind, at, detail } = event;
      if (keyId === key.id) effects.push({ subject, kind, at, detail });
      for (const { recording } of erasedKeys(event)) erased.add(recording);
    }
  return effects;
}

async function findSubject({ store, namespace }: AuditContext, key: KeyRecord): Promise<string> {
  const { id, commitment, parameters, answer, recordedAt } = key;
  if (answer?.ok && commitment !== undefined) return commitmentSubject(commitment);
  const about = commitment === undefined ? undefined : (await store.get(namespace, commitment)).commitment;
  const resource = about?.resource ?? parameters.resource;
  return isName(resource) ? resourceSubject(resource) : requestSubject(unboundRequest(id, recordedAt));
}

function isSame(
  before: { readonly events: number; readonly lastHash: string } | undefined,
  after: { readonly events: number; readonly lastHash: string } | undefined,
): boolean {
  return before?.events === after?.events && before?.lastHash === after?.lastHash;
}
