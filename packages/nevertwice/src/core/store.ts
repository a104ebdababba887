/**
 * The contract between the engine and whatever keeps the records. A store stores; the engine decides. Each method is
 * one atomic step, judged by the store's own clock. docs/guarantees.md has the table; `nevertwice/testing` the cases.
 */
import type { StoreSettings } from "./settings.ts";

/** What one key is a key of. Kept beside the hashed `id` for people; never compared. */
export interface Parts {
  readonly namespace: string;
  readonly scope: string;
  readonly operation: string;
  readonly key: string;
}

/** `lapsed` is a pending record past its lease: whether its effect happened is unknown. It is seen, not stored. */
export type RecordState = "pending" | "lapsed" | "completed" | "released";

/** A record as it stood when it was read. Times are the store's clock, in milliseconds since the epoch. */
export interface StoreRecord {
  readonly id: string;
  /** Absent once an operator or an erasure request has forgotten the record. */
  readonly parts: Parts | undefined;
  readonly fingerprint: string | undefined;
  readonly state: RecordState;
  /** The attempt that owns the record, or owned it last. */
  readonly token: string;
  readonly fence: number;
  /** Counts the attempts: 1 for the first claim. */
  readonly number: number;
  /** Once lapsed, only a claim with `takeover` may have it. */
  readonly hold: boolean;
  readonly claimedAt: number;
  /** 0 unless pending. */
  readonly leaseLeftMs: number;
  readonly completedAt: number | undefined;
  /** When the record becomes absent by itself; a held one does not until it is decided. */
  readonly keptUntil: number;
  readonly outcome: string | undefined;
}

interface Cancellable {
  /** Fires when the engine stops waiting for this call. Made only for stores that say `usesSignal`. */
  readonly signal?: AbortSignal | undefined;
}

export interface ClaimRequest extends Cancellable {
  readonly id: string;
  readonly parts: Parts;
  readonly fingerprint?: string | undefined;
  readonly token: string;
  readonly leaseMs: number;
  /** How long past its lease a released or lapsed record is kept. */
  readonly retentionMs: number;
  readonly hold: boolean;
  /** Claim only a lapsed record that has this fence. */
  readonly takeover?: number | undefined;
}

export type ClaimAnswer =
  | {
      readonly status: "new";
      readonly fence: number;
      readonly number: number;
      /** The claim took over a lapsed record: an earlier attempt's outcome is unknown. */
      readonly tookOver: boolean;
    }
  | { readonly status: "pending"; readonly leaseLeftMs: number }
  | { readonly status: "completed"; readonly outcome: string }
  | { readonly status: "conflict"; readonly state: RecordState }
  | { readonly status: "unknown"; readonly fence: number };

export interface CompleteRequest extends Cancellable {
  readonly id: string;
  readonly token: string;
  /** Well-formed text without U+0000; it comes back exactly as it is. */
  readonly outcome: string;
  readonly retentionMs: number;
}

/**
 * `released`: the key is free. `unknown`: lapsed at once. `unrun`: the work never started, so the record goes back to
 * what the claim found: lapsed if it took over a lapsed one, released otherwise. After any of them the token claims
 * and renews no more.
 */
export type AbandonAs = "released" | "unknown" | "unrun";

export interface AbandonRequest extends Cancellable {
  readonly id: string;
  readonly token: string;
  readonly as: AbandonAs;
}

export interface RenewRequest extends Cancellable {
  readonly id: string;
  readonly token: string;
  readonly leaseMs: number;
}

export interface ForgetRequest extends Cancellable {
  readonly id: string;
  readonly fence: number;
  /** Over a completed record: releases it, so that the work may be done again. */
  readonly reopen?: boolean | undefined;
}

export interface WatchRequest {
  readonly id: string;
  /** Called after the record was completed, abandoned or forgotten; may be called more often. */
  readonly wake: () => void;
}

export interface ListRequest extends Cancellable {
  readonly namespace: string;
  readonly scope?: string | undefined;
  readonly state?: RecordState | undefined;
  readonly limit: number;
  /** Where the page before this one ended. */
  readonly after?: string | undefined;
}

export interface ListPage {
  readonly records: readonly StoreRecord[];
  /** Hand it to `after` for the next page; absent on the last one. */
  readonly next?: string | undefined;
}

export interface PurgeReport {
  readonly removed: number;
  /** Something may be left to remove: ask again. */
  readonly more: boolean;
}

export interface Store {
  claim(request: ClaimRequest): Promise<ClaimAnswer>;
  complete(request: CompleteRequest): Promise<boolean>;
  abandon(request: AbandonRequest): Promise<boolean>;
  renew(request: RenewRequest): Promise<boolean>;
  /** The record, or undefined when it is absent or past its time. Never from a replica. */
  read(id: string, options?: Cancellable): Promise<StoreRecord | undefined>;
  /** Removes records that are past their time: at most `limit`, in one short step. */
  purge(limit: number, options?: Cancellable): Promise<PurgeReport>;
  close(): Promise<void>;

  /** Resolves once the subscription stands; the answer ends it. Without it waiters poll. */
  watch?(request: WatchRequest): Promise<() => void>;
  /** Pages for people; a record that moves while it is paged may be missed or seen twice. */
  list?(request: ListRequest): Promise<ListPage>;
  /**
   * Removes the record that has this fence. False on a pending one with lease left, and where there is none. Over a
   * completed one it leaves a not-kept marker until its retention ends, so that the work is still not repeated; with
   * `reopen` it leaves the key released, without its outcome: the next claim is new, and its fence higher.
   */
  forget?(request: ForgetRequest): Promise<boolean>;
  /** Reads the live settings, for the doctor. */
  settings?(): Promise<StoreSettings>;
  /** The store ends calls when their `signal` fires. Most have nothing to end, and a signal for each call is not free. */
  readonly usesSignal?: boolean;
  /** The database removes by itself what is past its time, so `purge` has nothing to do. */
  readonly collectsItself?: boolean;
  /** Outcomes larger than this are completed as not kept. */
  readonly maxOutcomeBytes?: number;
}
