/**
 * Moves the keys of one owner to another region. Every step can be repeated: after an interruption, the same call continues.
 *
 *   freeze: a version of the map in which no region runs the owner's requests
 *     ▼
 *   wait until the requests that run at the old home have ended; keys whose outcome is unknown have to be decided first
 *     ▼
 *   copy the records to the store of the new home
 *     ▼
 *   switch: a version of the map with the new home, which runs the requests from now on
 *
 * Records are copied, and not asked for at the old home later: the new home then depends on nothing that is out of reach when the old
 * region is lost. The originals stay until their retention ends.
 */
import { setTimeout } from "node:timers/promises";
import { NevertwiceError, type Store, type StoreRecord } from "nevertwice";
import { copyRecord } from "./copied-record.ts";
import { frozenMap, type HomeMap, homeIn, thawedMap } from "./home-map.ts";
import type { HomeMapLogs } from "./home-map-logs.ts";

export interface MoveOptions {
  readonly logs: HomeMapLogs;
  /** By the name of their region. */
  readonly stores: ReadonlyMap<string, Store>;
  /** Of the gateways' records. */
  readonly namespace: string;
  readonly scope: string;
  readonly to: string;
  /** How long to wait for running requests. */
  readonly waitMs: number;
}

export interface MoveReport {
  readonly from: string;
  readonly to: string;
  /** The version of the map in which the new home runs the requests. */
  readonly version: number;
  /** Records that were copied now, and those that the new home had already. */
  readonly copied: number;
  readonly alreadyThere: number;
}

const PAGE = 200;
const LOOK_EVERY_MS = 100;

export async function moveScope(options: MoveOptions): Promise<MoveReport> {
  const { logs, stores, scope, to } = options;
  const map = await requireMap(logs);
  const { region: from, movesTo } = homeIn(map, scope);
  const [old, next] = [requireStore(stores, from), requireStore(stores, to)];
  if (movesTo !== undefined && movesTo !== to)
    throw refused(`${scope} is being moved to ${movesTo}; finish that, or give it up with thaw.`);
  if (from === to && movesTo === undefined) throw refused(`the home of ${scope} is ${to} already.`);
  const frozen = movesTo === undefined ? frozenMap(map, scope, to) : map;
  if (movesTo === undefined) await logs.publish(frozen);
  await untilSettled(old, options);
  const counts = { copied: 0, "already-there": 0 };
  for await (const record of listRecords(old, options)) counts[await copyRecord(record, next)]++;
  const moved = thawedMap(frozen, scope, to);
  await logs.publish(moved);
  return {
    from,
    to,
    version: moved.version,
    copied: counts.copied,
    alreadyThere: counts["already-there"],
  };
}

/** Gives a move up: the old home runs the requests again. */
export async function thawScope({
  logs,
  scope,
}: Pick<MoveOptions, "logs" | "scope">): Promise<{ readonly region: string; readonly version: number }> {
  const map = await requireMap(logs);
  const { region, movesTo } = homeIn(map, scope);
  if (movesTo === undefined) throw refused(`${scope} is not being moved.`);
  const thawed = thawedMap(map, scope, region);
  await logs.publish(thawed);
  return { region, version: thawed.version };
}

/**
 * Resolves when no request of the owner runs. A gateway that has not seen the freeze yet may claim a key after it, but then finds the
 * freeze before it sends the request, and gives the claim up.
 */
async function untilSettled(store: Store, options: MoveOptions): Promise<void> {
  const until = performance.now() + options.waitMs;
  for (;;) {
    const counts = { pending: 0, lapsed: 0 };
    for await (const { state } of listRecords(store, options))
      if (state === "pending" || state === "lapsed") counts[state]++;
    if (counts.lapsed > 0)
      throw refused(
        `the outcome of ${counts.lapsed} keys is unknown. Decide them at the old home with \`nevertwice keys resolve\`, and repeat the move. Until then no region runs the requests of ${options.scope}.`,
      );
    if (counts.pending === 0) return;
    if (performance.now() > until)
      throw refused(
        `${counts.pending} requests still run at the old home. Repeat the move when they have ended, or give it up with thaw. Until then no region runs the requests of ${options.scope}.`,
      );
    await setTimeout(LOOK_EVERY_MS);
  }
}

async function* listRecords(
  store: Store,
  { namespace, scope }: MoveOptions,
): AsyncGenerator<StoreRecord, void, undefined> {
  if (store.list === undefined) throw refused("the store of the old home cannot list records.");
  let after: string | undefined;
  do {
    const page = await store.list({ namespace, scope, limit: PAGE, after });
    if (page.unreadable !== undefined && page.unreadable.length > 0)
      throw refused(
        `the record ${page.unreadable[0]?.id} of the old home cannot be read, so it cannot be copied.`,
      );
    yield* page.records;
    after = page.next;
  } while (after !== undefined);
}

async function requireMap(logs: HomeMapLogs): Promise<HomeMap> {
  const map = await logs.newest();
  if (map === undefined) throw refused("there is no home map; publish one with `nevertwice regions init`.");
  return map;
}

function requireStore(stores: ReadonlyMap<string, Store>, region: string): Store {
  const store = stores.get(region);
  if (store === undefined) throw refused(`the store of the region ${region} is not named.`);
  return store;
}

function refused(message: string): NevertwiceError {
  return new NevertwiceError("request-invalid", message);
}
