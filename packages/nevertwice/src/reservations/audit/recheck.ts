/**
 * Rechecks a record that looked wrong before it is reported. The pages of a store are read at different times, so a
 * transaction in between can make healthy rows disagree. Chains only grow, and rows count their events: a row that is the
 * same before and after its chain was read did not change meanwhile. A record that changes every time is left open.
 */
import { commitmentSubject, resourceSubject } from "../journal.ts";
import type { KeptResource, KeyRecord } from "../store.ts";
import { addEvent, type Chain, openChain } from "./chain.ts";
import type { AuditContext } from "./context.ts";
import type { Judgement } from "./findings.ts";
import { judgeCommitment } from "./judge-commitment.ts";
import { type Effect, judgeAbsentKey, judgeKey } from "./judge-key.ts";
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

/** Adds up the commitments before and after the row is read: if both sums are equal, the row belongs to that sum. */
export async function recheckResource(context: AuditContext, name: string): Promise<Judgement | undefined> {
  let before = await sumCommitments(context, name);
  for (let tries = 0; tries < TRIES; tries++) {
    const row = await loadResource(context, name);
    const chain = await loadChain(context, resourceSubject(name));
    const after = await sumCommitments(context, name);
    const later = await loadResource(context, name);
    if (before.events === after.events && isSame(row, later))
      return judgeResource(name, row, chain, before.count === 0 ? undefined : before);
    before = after;
  }
  return undefined;
}

/** `effects` are the known events of the key. */
export async function recheckKey(
  context: AuditContext,
  id: string,
  effects: readonly Effect[],
): Promise<Judgement | undefined> {
  const { store, windows } = context;
  let key = await loadKey(context, id);
  for (let tries = 0; tries < TRIES; tries++) {
    const known = key === undefined ? effects : await loadEffects(context, key, effects);
    const after = await loadKey(context, id);
    const now = await store.now();
    if (key?.recordedAt === after?.recordedAt)
      return key === undefined ? judgeAbsentKey(id, known, now, windows) : judgeKey(key, known, now, windows);
    key = after;
  }
  return undefined;
}

async function loadChain(context: AuditContext, subject: string): Promise<Chain | undefined> {
  const chain = openChain(subject);
  for await (const rows of scanPages(context, (query) => context.store.events({ ...query, subject })))
    for (const event of rows) addEvent(chain, event);
  return chain.count === 0 ? undefined : chain;
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

async function sumCommitments(
  context: AuditContext,
  resource: string,
): Promise<OccupiedUnits & { events: number; count: number }> {
  const sum = { units: 0, lastPlacedAt: 0, events: 0, count: 0 };
  for await (const rows of scanPages(context, (query) => context.store.commitments({ ...query, resource })))
    for (const { occupied, placedAt, events } of rows) {
      sum.units += occupied;
      sum.lastPlacedAt = Math.max(sum.lastPlacedAt, placedAt);
      sum.events += events;
      sum.count++;
    }
  return sum;
}

/** The known events of a key, and its events in the chain of the commitment or resource that it changed. */
async function loadEffects(
  context: AuditContext,
  key: KeyRecord,
  known: readonly Effect[],
): Promise<readonly Effect[]> {
  const { commitment, parameters } = key;
  const subject =
    commitment !== undefined ? commitmentSubject(commitment) : resourceSubject(String(parameters.resource));
  const effects = known.filter((effect) => effect.subject !== subject);
  for await (const rows of scanPages(context, (query) => context.store.events({ ...query, subject })))
    for (const { keyId, kind, at, detail } of rows)
      if (keyId === key.id) effects.push({ subject, kind, at, detail });
  return effects;
}

function isSame(
  before: { readonly events: number; readonly lastHash: string } | undefined,
  after: { readonly events: number; readonly lastHash: string } | undefined,
): boolean {
  return before?.events === after?.events && before?.lastHash === after?.lastHash;
}
