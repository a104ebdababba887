/**
 * The contract between the engine and a store. The store keeps records; the engine decides. Each method is one atomic
 * step, judged by the store's own clock. docs/guarantees.md has the table, and `nevertwice/testing` the cases.
 */
import type { StoreSettings } from "./durability.ts";

/** The parts of an identity. They are stored next to the hashed `id` for operators, and never compared. */
export interface Parts {
  /** The namespace of the guard. */
  readonly namespace: string;
  /** Whose key it is; empty for a key without a scope. */
  readonly scope: string;
  /** What the key is for. */
  readonly operation: string;
  /** The key as the caller gave it. */
  readonly key: string;
}

/** `lapsed` is a pending record past its lease: whether its effect happened is unknown. It is seen, not stored. */
export type RecordState = "pending" | "lapsed" | "completed" | "released";

/** A record at the time of the read. Times are those of the store's clock, in milliseconds since the epoch. */
export interface StoreRecord {
  /** The hash of the identity: 64 hex digits. */
  readonly id: string;
  /** Absent after an operator or an erasure request has forgotten the record. */
  readonly parts: Parts | undefined;
  /** What the request meant, as text that only the engine reads; undefined if it was not compared. */
  readonly fingerprint: string | undefined;
  /** Computed at the time of the read: a pending record past its lease is `lapsed`. */
  readonly state: RecordState;
  /** The attempt that owns the record, or owned it last. */
  readonly token: string;
  /** Grows with every claim of this id, and never repeats while the record exists. */
  readonly fence: number;
  /** Counts the attempts: 1 for the first claim. */
  readonly number: number;
  /** After it has lapsed, only a claim with `takeover` can claim the record. */
  readonly hold: boolean;
  /** When the latest claim was granted. */
  readonly claimedAt: number;
  /** 0 unless pending. */
  readonly leaseLeftMs: number;
  /** When the work was completed; undefined unless completed. */
  readonly completedAt: number | undefined;
  /** When a lapsed record lapsed: when its lease ended, or when it was abandoned before that. Absent in other states. */
  readonly lapsedAt?: number | undefined;
  /** When the record becomes absent. A held record stays until it is decided. */
  readonly keptUntil: number;
  /** The encoded outcome, exactly as it was completed; undefined unless completed. */
  readonly outcome: string | undefined;
  /** The finished steps of work that is not completed; absent if there are none. */
  readonly steps?: readonly KeptStep[];
  /** The attempts of the record. Only `read` answers it, and only of stores that say `keepsHistory`. */
  readonly history?: RecordHistory;
}

/** What a record remembers of its attempts, until it is absent. */
export interface RecordHistory {
  /** In their order. The last one is the attempt that owns the record, or owned it last. */
  readonly attempts: readonly KeptAttempt[];
  /** How many earlier attempts are not listed: a record remembers the last 32 besides the present one. */
  readonly dropped: number;
}

/** One attempt in the history of a record. Times are those of the store's clock. */
export interface KeptAttempt {
  /** Which attempt it was, from 1. */
  readonly number: number;
  /** The fence of its claim. */
  readonly fence: number;
  /** When it claimed the key, in milliseconds since the epoch. */
  readonly claimedAt: number;
  /** How often the claim was renewed. */
  readonly renewals: number;
  /** When it was renewed last; absent if it never was. */
  readonly renewedAt: number | undefined;
  /** Absent while the attempt has not ended. */
  readonly endedAt: number | undefined;
  /** `lapsed`: its lease ended first. `completed` in an earlier attempt: an operator has reopened the key since. */
  readonly ended: "completed" | "lapsed" | AbandonAs | undefined;
}

/** A finished step of the work (`attempt.step`), kept under its claim. */
export interface KeptStep {
  /** The name of the step, unique within the record. */
  readonly name: string;
  /** The encoded outcome of the step. */
  readonly outcome: string;
  /** When the store kept it. */
  readonly keptAt: number;
}

export interface Cancellable {
  /** Fires when the engine stops waiting for this call. Made only for stores that say `usesSignal`. */
  readonly signal?: AbortSignal | undefined;
}

/** Claims an id for an attempt. */
export interface ClaimRequest extends Cancellable {
  /** The hash of the identity: 64 hex digits. */
  readonly id: string;
  /** Stored for operators, and never compared. */
  readonly parts: Parts;
  /** What the request means. A record with another one answers `conflict`; undefined compares nothing. */
  readonly fingerprint?: string | undefined;
  /**
   * The attempt that claims, unique and secret. A repeated claim with the token of the owner gets the same
   * answer again.
   */
  readonly token: string;
  /** How long the claim holds unless it is renewed, in milliseconds. */
  readonly leaseMs: number;
  /** How long past its lease a released or lapsed record is kept. */
  readonly retentionMs: number;
  /** After it has lapsed, only a claim with `takeover` can claim the record. */
  readonly hold: boolean;
  /** Claim only a lapsed record that has this fence. */
  readonly takeover?: number | undefined;
  /**
   * A crash of the store may lose this claim: its work commits only together with the record, so without the claim nothing
   * has happened. A store may then answer before the claim is on disk.
   */
  readonly mayBeLost?: boolean | undefined;
}

/** `Outcome`: how a completed record keeps its outcome. In this contract it is text. */
export type ClaimAnswer<Outcome = string> =
  | {
      /** What the claim found. `new`: the caller owns the record and may run the work. */
      readonly status: "new";
      /** The fence of the claim. With `unknown`, the fence of the lapsed one. */
      readonly fence: number;
      /** Which attempt this is, from 1. */
      readonly number: number;
      /** The claim took over a lapsed record: an earlier attempt's outcome is unknown. */
      readonly tookOver: boolean;
      /** The steps that earlier attempts finished, in order; absent if there are none. */
      readonly steps?: readonly KeptStep[];
    }
  | {
      readonly status: "pending";
      /** How long the owner holds the record if it does not renew, in milliseconds. */
      readonly leaseLeftMs: number;
      /** How long the attempt that holds the key has run, by the store's clock. Absent if no attempt runs, or if it is not known. */
      readonly elapsedMs?: number | undefined;
    }
  | {
      readonly status: "completed";
      /** What the record was completed with. */
      readonly outcome: Outcome;
    }
  | {
      readonly status: "conflict";
      /** The state of the record that has another fingerprint. */
      readonly state: RecordState;
    }
  | { readonly status: "unknown"; readonly fence: number };

/** Completes the claim that has this token. */
export interface CompleteRequest<Outcome = string> extends Cancellable {
  /** The hash of the identity. */
  readonly id: string;
  /** The token of the claim. */
  readonly token: string;
  /** Well-formed text without U+0000. The store returns it unchanged. */
  readonly outcome: Outcome;
  /** How long the outcome is kept, in milliseconds from now. */
  readonly retentionMs: number;
}

/** Keeps a finished step under the claim that has this token. */
export interface KeepStepRequest extends Cancellable {
  /** The hash of the identity. */
  readonly id: string;
  /** The token of the claim. */
  readonly token: string;
  /** The name of the step. A name that is kept already stays as it is. */
  readonly name: string;
  /** Text like that of a completion. */
  readonly outcome: string;
}

/**
 * `released`: the key is free. `unknown`: the record lapses immediately. `unrun`: the work never started, so the record
 * returns to what the claim found: lapsed if it took over a lapsed record, released otherwise. After any of them the
 * token can no longer claim or renew.
 */
export type AbandonAs = "released" | "unknown" | "unrun";

/** Ends the claim that has this token without an outcome. */
export interface AbandonRequest extends Cancellable {
  /** The hash of the identity. */
  readonly id: string;
  /** The token of the claim. */
  readonly token: string;
  /** What becomes of the record. */
  readonly as: AbandonAs;
}

/** Prolongs the claim that has this token. */
export interface RenewRequest extends Cancellable {
  /** The hash of the identity. */
  readonly id: string;
  /** The token of the claim. */
  readonly token: string;
  /** The length of the new lease, in milliseconds from now. */
  readonly leaseMs: number;
}

export interface ForgetRequest extends Cancellable {
  /** The hash of the identity. */
  readonly id: string;
  /** The fence that the operator saw. A record with another one is left alone. */
  readonly fence: number;
  /** Over a completed record: releases it, so that the work may be done again. */
  readonly reopen?: boolean | undefined;
}

/** Asks to be called when a record changes. */
export interface WatchRequest {
  /** The hash of the identity. */
  readonly id: string;
  /**
   * Called after the record was completed, abandoned or forgotten. It may be called more often than that. The caller then claims
   * again; if it has to wait again, it watches again.
   */
  readonly wake: () => void;
}

/** Asks for one page of records. */
export interface ListRequest extends Cancellable {
  /** Only records of this namespace. */
  readonly namespace: string;
  /** Only records of this scope. */
  readonly scope?: string | undefined;
  /** Only records of this operation. */
  readonly operation?: string | undefined;
  /** The exact text of the key. */
  readonly key?: string | undefined;
  /** Only records in this state, as it is at the time of the read. */
  readonly state?: RecordState | undefined;
  /** Only records that were claimed in this millisecond of the store's clock or earlier. */
  readonly before?: number | undefined;
  /** The most records on the page. */
  readonly limit: number;
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
}

/** A record that exists but cannot be read, because its row was damaged or changed by hand. */
export interface UnreadableRecord {
  /** The id of the record. */
  readonly id: string;
  /** Why it cannot be read, in words. */
  readonly reason: string;
}

/** One page of records. */
export interface ListPage {
  /** The records of this page. */
  readonly records: readonly StoreRecord[];
  /** The records of this page that cannot be read; absent if there are none. */
  readonly unreadable?: readonly UnreadableRecord[] | undefined;
  /** Pass it as `after` to get the next page; absent on the last page. A page that has it may be empty: more is left to look at. */
  readonly next?: string | undefined;
}

/** `newest-first`: by the time of the claim, and by id where times are equal. `none`: a record may be anywhere. */
export type ListOrder = "newest-first" | "none";

/** Asks how many held records wait for a decision. */
export interface UndecidedRequest extends Cancellable {
  /** Only records of this namespace. */
  readonly namespace: string;
  /** Count no further than this. */
  readonly limit: number;
}

/** The held records whose attempts have lapsed: each waits for a decision. */
export interface UndecidedReport {
  /** How many there are, at most `limit`. */
  readonly count: number;
  /** False: there may be more, and an older one. */
  readonly isComplete: boolean;
  /** When the oldest of those that were counted lapsed, by the store's clock; absent if there are none. */
  readonly oldestLapsedAt?: number | undefined;
}

/** Asks for the namespaces that have records. */
export interface NamespacesRequest extends Cancellable {
  /** The most namespaces on a page. */
  readonly limit: number;
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
}

/** One page of namespaces. */
export interface NamespacePage {
  /** Each namespace that has records, once, in any order. */
  readonly namespaces: readonly string[];
  /** As in `ListPage`. */
  readonly next?: string | undefined;
}

/** What one step of a purge did. */
export interface PurgeReport {
  /** How many records were removed. */
  readonly removed: number;
  /** More records may be left to remove: call `purge` again. */
  readonly more: boolean;
}

export interface OverdueRequest extends Cancellable {
  /** Count no further than this. */
  readonly limit: number;
}

/** The expired records, of all namespaces, that no purge has removed yet. */
export interface OverdueReport {
  /** How many there are, at most `limit`. */
  readonly count: number;
  /** False: there may be more. */
  readonly isComplete: boolean;
  /** Since when a purge could have removed the oldest of them, by the store's clock; absent if there are none. */
  readonly oldestSince?: number | undefined;
}

/**
 * The contract of a store. Each method is one atomic step, judged by the store's own clock. A method that
 * cannot tell whether it had an effect rejects; the engine then repeats it with the same token. `storeCases`
 * of `nevertwice/testing` check a store.
 */
export interface Store {
  /** Claims the id if it is free, released, expired or lapsed, and otherwise says why not. */
  claim(request: ClaimRequest): Promise<ClaimAnswer>;
  /**
   * Stores the outcome. False, and nothing is written, unless the token owns the claim; true again if this
   * token has completed it.
   */
  complete(request: CompleteRequest): Promise<boolean>;
  /** Ends the claim without an outcome. False, and nothing is written, unless the token owns it. */
  abandon(request: AbandonRequest): Promise<boolean>;
  /**
   * Prolongs the claim. False, and nothing is written, unless the token owns it; a lapsed claim can be renewed
   * until another attempt takes it over.
   */
  renew(request: RenewRequest): Promise<boolean>;
  /** The record, or undefined if it is absent or expired. Never read from a replica. */
  read(id: string, options?: Cancellable): Promise<StoreRecord | undefined>;
  /** Removes expired records: at most `limit`, in one short step. */
  purge(limit: number, options?: Cancellable): Promise<PurgeReport>;
  /** Releases what the store has opened itself. It leaves connections alone that were handed to it. */
  close(): Promise<void>;

  /**
   * Keeps a finished step under the claim. False, and nothing is written, unless the token owns a claim that it has neither
   * completed nor given up. A name that is kept already stays as it is, and the answer is true. While it is undefined,
   * `attempt.step` is refused.
   */
  readonly keepStep?: ((request: KeepStepRequest) => Promise<boolean>) | undefined;
  /** Resolves when the subscription is active, with a function that ends it. Without `watch`, waiters poll. */
  watch?(request: WatchRequest): Promise<() => void>;
  /**
   * Lists records page by page, each page in a limited number of rows that it looks at. A record that is claimed again in
   * the meantime may be missed or listed twice.
   */
  list?(request: ListRequest): Promise<ListPage>;
  /** The order of `list`; default `none`. */
  readonly listOrder?: ListOrder;
  /** Counts the held records that wait for a decision, in a limited number of rows that it looks at. */
  undecided?(request: UndecidedRequest): Promise<UndecidedReport>;
  /** Counts the records that a purge would remove now, in a limited number of rows that it looks at. */
  overdue?(request: OverdueRequest): Promise<OverdueReport>;
  /** Lists the namespaces that have records, page by page. */
  namespaces?(request: NamespacesRequest): Promise<NamespacePage>;
  /**
   * Removes the record that has this fence. False if there is none, or if it is pending with lease left. A completed record
   * is replaced by a not-kept marker until its retention ends, so that the work is still not repeated. With `reopen` it is
   * released without its outcome instead: the next claim is new and has a higher fence.
   */
  forget?(request: ForgetRequest): Promise<boolean>;
  /** Reads the live settings of the store, for the doctor. */
  settings?(): Promise<StoreSettings>;
  /**
   * The store cancels a call when its `signal` fires. A signal costs time, so it is created only for stores that say so. A
   * store that says `"aborted"` reads only that member of the signal, and gets an object that has nothing else.
   */
  readonly usesSignal?: boolean | "aborted";
  /**
   * Counts how often the store reconnected, perhaps to another server. After a reconnect the engine checks the settings of
   * the store again.
   */
  readonly reconnects?: number;
  /** `read` answers the `history` of a record. */
  readonly keepsHistory?: boolean;
  /** The database removes expired records itself, so `purge` has nothing to do. */
  readonly collectsItself?: boolean;
  /** Outcomes larger than this are completed as not kept. */
  readonly maxOutcomeBytes?: number;
}
