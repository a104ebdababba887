/** Finds records page by page: expired ones for `purge`, and those of a namespace for `list`. */
import { readEach } from "../../core/checked-record.ts";
import type { Clock } from "../../core/clock.ts";
import { isExpired } from "../../core/record.ts";
import { viewOf } from "../../core/record-details.ts";
import type { ListPage, ListRequest, PurgeReport, StoreRecord, UnreadableRecord } from "../../core/store.ts";
import { isListed } from "../listing.ts";
import type { EtcdGateway } from "./gateway.ts";
import type { LeaseWatch } from "./lapse.ts";
import { fromKeyValue, type Keyspace, type StoredRecord } from "./records.ts";
import * as tx from "./transactions.ts";

export interface PagesOptions {
  readonly gateway: EtcdGateway;
  readonly keys: Keyspace;
  readonly leases: LeaseWatch;
  readonly clock: Clock;
  readonly monotonicClock: Clock;
}

export interface Pages {
  purge(limit: number, signal?: AbortSignal): Promise<PurgeReport>;
  list(request: ListRequest): Promise<ListPage>;
}

/** etcd allows 128 operations in a transaction, and each record may take a megabyte of the answer. */
const RECORDS_AT_ONCE = 32;
const RECORDS_A_SCAN = 100;
/** How many scans one page of a list may take. */
const MAX_SCANS = 20;

export function createPages({ gateway, keys, leases, clock, monotonicClock }: PagesOptions): Pages {
  /** Where the next purge continues. */
  let purgedTo: string | undefined;

  async function scan(
    from: string,
    options: tx.RangeOptions,
    signal: AbortSignal | undefined,
  ): Promise<ReturnType<typeof tx.readRange>> {
    return tx.readRange((await gateway.call("kv/range", tx.range(from, options), signal)).body);
  }

  /** Of these keys, those whose records have expired, with the record to remove; undefined if it is gone already. */
  async function findExpired(
    untils: readonly tx.KeyValue[],
    signal: AbortSignal | undefined,
  ): Promise<readonly { readonly until: string; readonly stored: StoredRecord }[]> {
    const [at, now] = [monotonicClock.now(), clock.now()];
    const reads = untils.map(({ key }) => tx.get(keys.record(keys.idInUntil(key))));
    const { body } = await gateway.call("kv/txn", tx.transaction({ onSuccess: reads }), signal);
    const found = tx.readAnswer(body).found.flat();
    // A damaged record is never purged: without it, its work would look as if it had never run.
    const { values } = readEach(
      found,
      ({ key }) => keys.idIn(key),
      (each) => fromKeyValue(keys.idIn(each.key), each),
    );
    const untilOf = new Map(untils.map(({ key }) => [keys.idInUntil(key), key]));
    return values.flatMap((stored) => {
      const { id } = stored.record;
      leases.see(id, stored, monotonicClock.now());
      const until = untilOf.get(id);
      return until !== undefined && isExpired(leases.judge(stored, at, now), now) ? [{ until, stored }] : [];
    });
  }

  /** Removes the records that have not changed since they were read. Resolves to how many they were. */
  async function removeAll(
    expired: Awaited<ReturnType<typeof findExpired>>,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    if (expired.length === 0) return 0;
    const onSuccess = expired.map(({ until, stored }) => {
      const key = keys.record(stored.record.id);
      const removals = [tx.remove(key), tx.remove(until)];
      return tx.nested({ compare: [tx.revisionIs(key, stored.revision)], onSuccess: removals });
    });
    const { body } = await gateway.call("kv/txn", tx.transaction({ onSuccess }), signal);
    return tx.readAnswer(body).nested.filter(({ hasSucceeded }) => hasSucceeded).length;
  }

  return {
    async purge(limit, signal) {
      const { from, to } = keys.untilNow(clock.now(), purgedTo);
      const page = await scan(from, { to, limit, keysOnly: true }, signal);
      let removed = 0;
      for (let start = 0; start < page.found.length; start += RECORDS_AT_ONCE) {
        const chunk = page.found.slice(start, start + RECORDS_AT_ONCE);
        removed += await removeAll(await findExpired(chunk, signal), signal);
      }
      const last = page.found.at(-1);
      // A key that stays, of a damaged record or of a claim that may still run, must not hide those after it.
      purgedTo = page.more && last !== undefined ? `${last.key}\0` : undefined;
      return { removed, more: page.more };
    },

    async list({ limit, after, signal, ...filter }) {
      const records: StoreRecord[] = [];
      const unreadable: UnreadableRecord[] = [];
      const toPage = (next: string | undefined): ListPage => ({
        records,
        ...(unreadable.length > 0 && { unreadable }),
        ...(next !== undefined && { next }),
      });
      let last = after;
      for (let scans = 0; scans < MAX_SCANS; scans++) {
        const [at, now] = [monotonicClock.now(), clock.now()];
        const { from, to } = keys.recordsAfter(last);
        const page = await scan(from, { to, limit: RECORDS_A_SCAN }, signal);
        for (const each of page.found) {
          const id = keys.idIn(each.key);
          const read = readEach(
            [each],
            () => id,
            (found) => fromKeyValue(id, found),
          );
          unreadable.push(...read.unreadable);
          const [stored] = read.values;
          if (stored !== undefined) {
            leases.see(id, stored, monotonicClock.now());
            const record = leases.judge(stored, at, now);
            const isShown = isListed(record, filter, now);
            if (isShown && records.length === limit) return toPage(last);
            if (isShown) records.push(viewOf(record, now));
          }
          last = id;
        }
        if (!page.more) return toPage(undefined);
      }
      return toPage(last);
    },
  };
}
