/**
 * Reads what looked wrong anew, before it is called so. The pages of a store were read at different times, so a
 * transaction in between makes rows disagree that never did. Chains only grow and rows count their events, so what is the
 * same before and after a reading did not change during it; what changes every time is left open.
 */
import { commitmentSubject, resourceSubject } from "../journal.ts";
import type { KeptResource, KeyRecord, ReservationStore } from "../ledger.ts";
import { addTo, type Chain, openChain } from "./chain.ts";
import type { Judgement } from "./findings.ts";
import { judgeCommitment } from "./judge-commitment.ts";
import { type Effect, judgeAbsentKey, judgeKey, type Windows } from "./judge-key.ts";
import { judgeResource, type Occupied } from "./judge-resource.ts";
import { type Paging, pagesOf } from "./pages.ts";

const READINGS = 5;

export interface Reading extends Paging {
  readonly store: ReservationStore;
  readonly windows: Windows;
}

/** Undefined if it changed during every reading. */
export async function commitmentAnew(reading: Reading, id: string): Promise<Judgement | undefined> {
  const { store, namespace } = reading;
  let { commitment } = await store.get(namespace, id);
  for (let readings = 0; readings < READINGS; readings++) {
    const chain = await chainOf(reading, commitmentSubject(id));
    const { commitment: after } = await store.get(namespace, id);
    if (isSame(commitment, after)) return judgeCommitment(id, commitment, chain);
    commitment = after;
  }
  return undefined;
}

/** The commitments are added up twice, with the row read in between: what is the same both times was so at that instant. */
export async function resourceAnew(reading: Reading, name: string): Promise<Judgement | undefined> {
  let before = await addUp(reading, name);
  for (let readings = 0; readings < READINGS; readings++) {
    const row = await resourceOf(reading, name);
    const chain = await chainOf(reading, resourceSubject(name));
    const after = await addUp(reading, name);
    const later = await resourceOf(reading, name);
    if (before.events === after.events && isSame(row, later))
      return judgeResource(name, row, chain, before.count === 0 ? undefined : before);
    before = after;
  }
  return undefined;
}

/** `effects` are the events that are known to name the key. */
export async function keyAnew(
  reading: Reading,
  id: string,
  effects: readonly Effect[],
): Promise<Judgement | undefined> {
  const { store, windows } = reading;
  let key = await keyOf(reading, id);
  for (let readings = 0; readings < READINGS; readings++) {
    const known = key === undefined ? effects : await effectsOf(reading, key, effects);
    const after = await keyOf(reading, id);
    const now = await store.now();
    if (key?.recordedAt === after?.recordedAt)
      return key === undefined ? judgeAbsentKey(id, known, now, windows) : judgeKey(key, known, now, windows);
    key = after;
  }
  return undefined;
}

async function chainOf(reading: Reading, subject: string): Promise<Chain | undefined> {
  const chain = openChain(subject);
  for await (const rows of pagesOf(reading, (query) => reading.store.events({ ...query, subject })))
    for (const event of rows) addTo(chain, event);
  return chain.count === 0 ? undefined : chain;
}

async function resourceOf({ store, namespace }: Reading, name: string): Promise<KeptResource | undefined> {
  return (await store.resources({ namespace, name, limit: 1 })).rows[0];
}

export async function keyOf({ store, namespace }: Reading, id: string): Promise<KeyRecord | undefined> {
  return (await store.keys({ namespace, id, limit: 1 })).rows[0];
}

async function addUp(
  reading: Reading,
  resource: string,
): Promise<Occupied & { events: number; count: number }> {
  const sum = { units: 0, lastPlacedAt: 0, events: 0, count: 0 };
  for await (const rows of pagesOf(reading, (query) => reading.store.commitments({ ...query, resource })))
    for (const { occupied, placedAt, events } of rows) {
      sum.units += occupied;
      sum.lastPlacedAt = Math.max(sum.lastPlacedAt, placedAt);
      sum.events += events;
      sum.count++;
    }
  return sum;
}

/** The events that are known to name a key, and those in the chain of what it acted on. */
async function effectsOf(
  reading: Reading,
  key: KeyRecord,
  known: readonly Effect[],
): Promise<readonly Effect[]> {
  const { commitment, parameters } = key;
  const subject =
    commitment !== undefined ? commitmentSubject(commitment) : resourceSubject(String(parameters.resource));
  const effects = known.filter((effect) => effect.subject !== subject);
  for await (const rows of pagesOf(reading, (query) => reading.store.events({ ...query, subject })))
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
