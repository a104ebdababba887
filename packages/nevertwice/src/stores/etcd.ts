/**
 * Records in an etcd cluster, one key each. Every write is a transaction that compares the revision of the record it
 * replaces, and that a majority of the members has on disk before it is acknowledged: a claim survives a lost leader. No key
 * is attached to an etcd lease, whose end would remove it. A claim lapses by what this process has seen (etcd/lapse.ts);
 * retention ends by the caller's clock, `clockSkewMs` later than requested.
 */
import { type Clock, systemClock, systemTimer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { hasStep } from "../core/kept-steps.ts";
import { checkOptions, isClock, isFunction, isText, wholeFrom } from "../core/option-checks.ts";
import type { Kept } from "../core/record.ts";
import type { Store } from "../core/store.ts";
import { createCompareAndSet, type RecordSnapshot, type WriteResult } from "./compare-and-set.ts";
import { readSettings } from "./etcd/durability.ts";
import { checkedEndpoints, isEndpoints } from "./etcd/endpoints.ts";
import { createGateway, type EtcdFetch } from "./etcd/gateway.ts";
import { createLeaseWatch } from "./etcd/lapse.ts";
import { createPages } from "./etcd/pages.ts";
import { createKeyspace, fromKeyValue, type StoredRecord, toValue } from "./etcd/records.ts";
import { createSharedWrites } from "./etcd/shared-writes.ts";
import * as tx from "./etcd/transactions.ts";
import { createEtcdWatch } from "./etcd/watch.ts";

import { undecidedByList } from "./listing.ts";

export type { EtcdFetch } from "./etcd/gateway.ts";

/** Options of `etcdStore`. */
export interface EtcdStoreOptions {
  /** The client URLs of the members, such as `https://etcd-1:2379`: name them all, so that one of them may be down. */
  readonly endpoints: string | readonly string[];
  /**
   * Every key of the store begins with it and a slash.
   * @default "nevertwice"
   */
  readonly prefix?: string;
  /** For a cluster with authentication. The user needs `readwrite` on the prefix. */
  readonly user?: string;
  /** The password of the user. */
  readonly password?: string;
  /** Replaces the platform's `fetch`, for example to present a client certificate. */
  readonly fetch?: EtcdFetch;
  /**
   * How long one member may take to answer before the next one is asked.
   * @default 1_500
   */
  readonly memberTimeoutMs?: number;
  /**
   * How long a call may take in all. A guard's `storeTimeoutMs` ends it earlier.
   * @default 5_000 (5 s)
   */
  readonly timeoutMs?: number;
  /** Decides when retention ends; default: the system clock. */
  readonly clock?: Clock;
  /** Decides when leases end. It must never go back; default: the platform's monotonic clock. */
  readonly monotonicClock?: Clock;
  /**
   * How many milliseconds the clocks of all users of the store may differ. Outcomes are kept this much longer
   * than requested. Leases do not depend on it. All processes must use the same value.
   * @default 5_000 (5 s)
   */
  readonly clockSkewMs?: number;
}

const PREFIX = "nevertwice";
const MEMBER_TIMEOUT_MS = 1_500;
const TIMEOUT_MS = 5_000;
const CLOCK_SKEW_MS = 5_000;
/** etcd accepts requests of 1,572,864 bytes by default, and the rest of a record takes less than 8,000. */
const MAX_OUTCOME_BYTES = 1_500_000;
/** How many claims of this process are remembered, so that their next step needs no read. */
const MAX_CLAIMS = 10_000;

interface Snapshot extends RecordSnapshot {
  readonly stored: StoredRecord | undefined;
}

/**
 * Keeps records in etcd 3.4 or later, through the HTTP gateway of its members.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { createGuard } from "nevertwice";
 * import { etcdStore } from "nevertwice/stores/etcd";
 *
 * const endpoints = ["https://etcd-1:2379", "https://etcd-2:2379", "https://etcd-3:2379"];
 * export const guard = createGuard({ store: etcdStore({ endpoints }) });
 * ```
 */
export function etcdStore(options: EtcdStoreOptions): Store {
  checkEtcdOptions(options);
  const { clock = systemClock, monotonicClock = systemTimer, clockSkewMs = CLOCK_SKEW_MS } = options;
  const { user, password = "", fetch = globalThis.fetch } = options;
  const gateway = createGateway({
    endpoints: checkedEndpoints(options.endpoints),
    fetch,
    credentials: user === undefined ? undefined : { user, password },
    memberTimeoutMs: options.memberTimeoutMs ?? MEMBER_TIMEOUT_MS,
    timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
  });
  const keys = createKeyspace(options.prefix ?? PREFIX);
  const send = createSharedWrites(gateway);
  const leases = createLeaseWatch();
  /** The claims of this process, as they were last written. */
  const claims = new Map<string, StoredRecord>();

  /** `at` and `now` are from before the request: a record that was renewed while the reply was on its way must not look lapsed. */
  function toSnapshot(stored: StoredRecord | undefined, at: number, now: number): Snapshot {
    if (stored === undefined) return { record: undefined, mark: tx.ABSENT, now, stored };
    return { record: leases.judge(stored, at, now), mark: stored.revision, now, stored };
  }

  /** What a read of the record's key found. */
  function seen(id: string, found: readonly tx.KeyValue[] = []): StoredRecord | undefined {
    const [first] = found;
    const stored = first && fromKeyValue(id, first);
    // Counted from the reply: the owner counts its lease from before it sent the claim.
    leases.see(id, stored, monotonicClock.now());
    return stored;
  }

  async function read(id: string, signal?: AbortSignal): Promise<Snapshot> {
    const [at, now] = [monotonicClock.now(), clock.now()];
    const transaction: tx.Transaction = { onSuccess: [tx.get(keys.record(id))] };
    const { found } = await send({ id, transaction, size: id.length, signal, isRead: true });
    return toSnapshot(seen(id, found), at, now);
  }

  /** `newLeases` is 1 for a step that writes a lease, and 0 for the others. */
  async function write(
    newLeases: 0 | 1,
    id: string,
    { stored: before }: Snapshot,
    record: Kept | undefined,
    signal?: AbortSignal,
  ): Promise<WriteResult> {
    const [at, now] = [monotonicClock.now(), clock.now()];
    const key = keys.record(id);
    const count = (before?.leases ?? 0) + newLeases;
    const value = record && toValue(record, count);
    const transaction: tx.Transaction = {
      compare: [tx.revisionIs(key, before?.revision ?? tx.ABSENT)],
      onSuccess: [value === undefined ? tx.remove(key) : tx.put(key, value), ...untilChanges(before, record)],
      onFailure: [tx.get(key)],
    };
    const size = key.length + (value?.length ?? 0);
    const { hasSucceeded, revision, found: all, mayBeRepeat } = await send({ id, transaction, size, signal });
    if (hasSucceeded) {
      written(id, record && { record, revision, created: before?.created ?? revision, leases: count });
      return { fence: record?.fence ?? 0 };
    }
    const [found] = all;
    // A try whose answer was lost may have written: then the comparison fails because of this very write.
    if (mayBeRepeat && found?.value === value) {
      written(id, found && fromKeyValue(id, found));
      return { fence: record?.fence ?? 0 };
    }
    if (claims.get(id)?.revision !== found?.revision) claims.delete(id);
    return { overtakenBy: toSnapshot(seen(id, all), at, now) };
  }

  /** Keeps the key that names the end of the retention in step with the record. */
  function untilChanges(before: StoredRecord | undefined, record: Kept | undefined): tx.Operation[] {
    const old = before && keys.until(before.record);
    const next = record && keys.until(record);
    if (old === next) return [];
    return [
      ...(old === undefined ? [] : [tx.remove(old)]),
      ...(next === undefined ? [] : [tx.put(next, "")]),
    ];
  }

  /** Remembers a record that this process wrote. */
  function written(id: string, stored: StoredRecord | undefined): void {
    leases.see(id, stored, monotonicClock.now());
    claims.delete(id);
    if (stored === undefined || stored.record.state !== "pending" || stored.record.spent) return;
    claims.set(id, stored);
    if (claims.size > MAX_CLAIMS) claims.delete(claims.keys().next().value as string);
  }

  /** The claim of this token, if this process made it. Another process may have overtaken it: the write will tell. */
  function claimed({ id, token }: { readonly id: string; readonly token: string }): Snapshot | undefined {
    const stored = claims.get(id);
    if (stored?.record.token !== token) return undefined;
    return toSnapshot(stored, monotonicClock.now(), clock.now());
  }

  const leasing = createCompareAndSet({ read, write: (...args) => write(1, ...(args as WriteArguments)) });
  const steps = createCompareAndSet({ read, write: (...args) => write(0, ...(args as WriteArguments)) });
  const pages = createPages({ gateway, keys, leases, clock, monotonicClock });
  const watch = createEtcdWatch(gateway, keys);

  return {
    usesSignal: true,
    maxOutcomeBytes: MAX_OUTCOME_BYTES,

    claim(request) {
      // Most keys are new: write as if this one were. If it is not, the same transaction returns the record.
      const first =
        request.takeover === undefined ? toSnapshot(undefined, monotonicClock.now(), clock.now()) : undefined;
      return leasing.claim({ ...request, retentionMs: request.retentionMs + clockSkewMs }, first);
    },

    complete: (request) =>
      steps.complete({ ...request, retentionMs: request.retentionMs + clockSkewMs }, claimed(request)),

    keepStep(request) {
      const first = claimed(request);
      // Only a write would tell that the claim was overtaken, and a step that is kept already is not written.
      const isKept = first?.record !== undefined && hasStep(first.record, request.name);
      return steps.keepStep(request, isKept ? undefined : first);
    },

    renew: (request) => leasing.renew(request, claimed(request)),
    abandon: (request) => steps.abandon(request, claimed(request)),
    read: steps.read,
    keepsHistory: true,
    forget: steps.forget,
    purge: (limit, { signal } = {}) => pages.purge(limit, signal),
    list: pages.list,
    listOrder: "none",
    undecided: (request) => undecidedByList(pages.list, request),
    watch: watch.watch,
    settings: () => readSettings(gateway, keys.record(""), clockSkewMs),
    async close() {
      watch.close();
      gateway.close();
    },
  };
}

type WriteArguments = [string, Snapshot, Kept | undefined, AbortSignal | undefined];

function checkEtcdOptions(options: EtcdStoreOptions): void {
  checkOptions(options, {
    endpoints: isEndpoints,
    prefix: isText,
    user: isText,
    password: isText,
    fetch: isFunction,
    memberTimeoutMs: wholeFrom(1),
    timeoutMs: wholeFrom(1),
    clock: isClock,
    monotonicClock: isClock,
    clockSkewMs: wholeFrom(0),
  });
  isEndpoints("endpoints", options.endpoints);
  if (options.password !== undefined && options.user === undefined)
    throw new NevertwiceError("options-invalid", "password needs a user: give both, or neither.");
}
