/** The contract of a reservation store: the rows that a transaction locks, what it writes, and the methods of a store. */
import type { StoreSettings } from "../core/durability.ts";
import type { PurgeReport } from "../core/store.ts";
import type { RunText } from "../core/store-transactions.ts";
import type { ActionName, ActionRequest, Parameters } from "./action-request.ts";
import type { Answer } from "./answer.ts";
import type { Commitment, CommitmentState } from "./commitment.ts";
import type { Recording } from "./duplicate-prevention.ts";
import type { ChainEnd, Checkpoint, JournalEvent } from "./journal.ts";
import type { Resource } from "./registry.ts";
import type { UnreadableRow } from "./stored-rows.ts";

/** A recorded key with its answer. They are one row, so that neither can outlive the other. */
export interface KeyRecord extends Recording {
  /** A hash of namespace, scope and key. */
  readonly id: string;
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** The owner of the key; empty if it has none. */
  readonly scope: string;
  /** The key. */
  readonly key: string;
  /** The action that the key was used for. */
  readonly action: ActionName;
  /** The digest of action and parameters. */
  readonly digest: string;
  /** What the action was asked for. */
  readonly parameters: Parameters;
  /** The answer, which every repetition of the key gets. */
  readonly answer: Answer;
  /** The id of the commitment that the action placed or changed. */
  readonly commitment: string | undefined;
  /** The answer is kept until this time, which is never before the end of the window. */
  readonly keptUntil: number;
  /** The value of `windowMs` when the key was recorded. Earlier releases did not store it. */
  readonly windowMs?: number | undefined;
  /** The salt of the digests in the journal; undefined once the requester is erased. */
  readonly salt?: string | undefined;
}

/** A commitment as it is stored. */
export interface KeptCommitment extends Commitment, ChainEnd {
  /** The namespace of the reservations. */
  readonly namespace: string;
  /** The salt of the requester's digest in the journal; empty once the requester is erased, like the requester. */
  readonly requesterSalt: string;
  /** Units of its resource that it occupies now: all while held, the confirmed ones until they are given back, then none. */
  readonly occupied: number;
}

/** A resource as it is stored. */
export interface KeptResource extends Resource, ChainEnd {
  /** The namespace of the reservations. */
  readonly namespace: string;
}

/** The rows that a transaction has locked, all of one namespace. Locks are taken in this order: keys, resources, commitments; each sorted by id. */
export interface LockedRows {
  readonly keys: ReadonlyMap<string, KeyRecord>;
  readonly resources: ReadonlyMap<string, KeptResource>;
  readonly commitments: ReadonlyMap<string, KeptCommitment>;
  /**
   * For each resource on which a hold is to be placed: its holds whose time is over, oldest first. Asked for only if the
   * resource has no room, so that a store may read them then.
   */
  readonly elapsed: Pick<ReadonlyMap<string, readonly KeptCommitment[]>, "get">;
}

export interface Writes {
  readonly keys: readonly KeyRecord[];
  readonly resources: readonly KeptResource[];
  readonly commitments: readonly KeptCommitment[];
  readonly events: readonly JournalEvent[];
  /** Undefined if there are no events. */
  readonly checkpoint: Checkpoint | undefined;
}

/** Decides, in addition to the capacity, whether a hold may be placed. Called inside the transaction: it must be fast and synchronous. */
export type Availability = (question: {
  /** The resource of the hold. */
  readonly resource: Resource;
  /** Who the units are held for. */
  readonly requester: string;
  /** How many units are to be held. */
  readonly units: number;
  /** The time of the transaction, by the store's clock. */
  readonly now: number;
}) => boolean;

/** The settings of a deployment. */
export interface Rules {
  /** The application. Resources, commitments and keys of different namespaces never meet. */
  readonly namespace: string;
  /** How long a key returns its answer, in milliseconds. */
  readonly windowMs: number;
  /** How long an answer is kept after its window; 0: not at all. */
  readonly historyMs: number;
  /** The longest duration of a hold, in milliseconds. */
  readonly maxDurationMs: number;
  /** Decides, in addition to the capacity, whether a hold may be placed. */
  readonly available: Availability | undefined;
}

/** How many elapsed holds of a resource the placement of new holds may need. */
export interface PlacementNeed {
  readonly resource: string;
  /**
   * This many elapsed holds, oldest first, are always enough: each frees at least one unit, and each other action of the
   * group may end one of them before and have its units taken again.
   */
  readonly most: number;
}

/** The rows that a group of actions needs, all of one namespace. The store also locks the resource of each commitment, before the commitment. */
export interface NeededRows {
  readonly keyIds: readonly string[];
  readonly commitmentIds: readonly string[];
  /** Resources named by an action. */
  readonly resources: readonly string[];
  /** Those of them on which a hold is to be placed, in the same order: their elapsed holds are needed too. */
  readonly placements: readonly PlacementNeed[];
}

/** One page of rows. */
export interface Page<Row> {
  /** The rows of this page. */
  readonly rows: readonly Row[];
  /** Rows of this page that cannot be read; absent if all can be read. */
  readonly unreadable?: readonly UnreadableRow[] | undefined;
  /** Pass it as `after` to get the next page; absent on the last page. */
  readonly next?: string | undefined;
}

export interface FoundCommitment {
  readonly commitment: KeptCommitment | undefined;
  /** Set if the row exists and cannot be read. */
  readonly unreadable?: UnreadableRow | undefined;
  readonly now: number;
}

/** Which page of rows to read. */
export interface PageQuery {
  /** Only rows of this namespace. */
  readonly namespace: string;
  /** The most rows on the page. */
  readonly limit: number;
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
}

/** Which commitments to read. */
export interface CommitmentQuery extends PageQuery {
  /** Only commitments of this resource. */
  readonly resource?: string | undefined;
  /** Only commitments of this requester. */
  readonly requester?: string | undefined;
  /** Only commitments in this state. */
  readonly state?: CommitmentState | undefined;
}

/** The transaction was rolled back or never began: nothing was written. */
export class NotWritten extends Error {
  constructor(cause: unknown) {
    super("nothing was written", { cause });
    this.name = "NotWritten";
  }
}

/** The transaction may or may not have been committed. `answers` are the decisions. */
export class MayBeWritten extends Error {
  readonly answers: readonly Answer[];
  constructor(answers: readonly Answer[], cause: unknown) {
    super("it is not known whether the transaction was committed", { cause });
    this.name = "MayBeWritten";
    this.answers = answers;
  }
}

/** A store whose statements can be run on any connection to its database, in a transaction that the application has open. */
export interface StatementActions {
  readonly kind: "statements";
  /** Checks the store. Throws `options-invalid` if the connection has no open transaction and the server would not notice. */
  prepare(run: RunText): Promise<void>;
  /**
   * Carries out one action. Its answer holds if the application commits. Every row that the decision depends on is read as
   * of its lock, whatever the isolation of the transaction: a server that cannot do that must answer an error.
   */
  act(run: RunText, request: ActionRequest, rules: Rules): Promise<Answer>;
}

/** A store that lives on the application's own connection, where everything is synchronous. */
export interface ConnectionActions {
  readonly kind: "connection";
  /** Whether this is the connection that the store uses. */
  isConnection(database: unknown): boolean;
  act(request: ActionRequest, rules: Rules): Answer;
}

/**
 * `transact` carries out a group of actions, all of the namespace of `rules`, as one transaction: it locks the rows in the
 * order of `LockedRows`, reads its clock once, decides, writes the result and commits. It throws
 * `NotWritten` or `MayBeWritten`. The caller then sends the actions one by one, which is safe: a key that was written
 * returns its answer.
 */
export interface ReservationStore {
  /** Carries out a group of actions as one transaction. Throws `NotWritten` or `MayBeWritten`. */
  transact(group: readonly ActionRequest[], rules: Rules): Promise<readonly Answer[]>;
  /**
   * The same without waiting for a transaction that the application has open. Undefined: one has locked what this action
   * needs, and nothing was written for it. A store whose transactions never stay open does not need it.
   */
  transactSkippingLocked?(
    group: readonly ActionRequest[],
    rules: Rules,
  ): Promise<readonly (Answer | undefined)[]>;
  /** How actions take part in transactions of the application; undefined if they cannot. */
  readonly inside?: StatementActions | ConnectionActions | undefined;
  /** Also returns the store's time, so that a hold past `expiresAt` can be shown as elapsed. */
  get(namespace: string, id: string): Promise<FoundCommitment>;
  /** Sorted by id. */
  commitments(query: CommitmentQuery): Promise<Page<KeptCommitment>>;
  /** Resources, sorted by name. */
  resources(
    query: PageQuery & {
      /** Only the resource of this name. */
      readonly name?: string | undefined;
    },
  ): Promise<Page<KeptResource>>;
  /** Stored keys, sorted by id. */
  keys(
    query: PageQuery & {
      /** Only the key with this id. */
      readonly id?: string | undefined;
      /** Only keys of actions on this commitment. */
      readonly commitment?: string | undefined;
    },
  ): Promise<Page<KeyRecord>>;
  /** Sorted by subject and number. */
  events(
    query: PageQuery & {
      /** Only events of this subject. */
      readonly subject?: string | undefined;
    },
  ): Promise<Page<JournalEvent>>;
  /** Checkpoints, sorted by id. */
  checkpoints(query: PageQuery): Promise<Page<Checkpoint>>;
  /** Ids of holds whose time is over and whose expiry is not recorded, oldest first; only those after `after`, if given. */
  elapsed(namespace: string, limit: number, after?: string): Promise<readonly string[]>;
  /** Removes keys past `keptUntil`, of all namespaces. */
  purge(limit: number): Promise<PurgeReport>;
  /** The store's time. */
  now(): Promise<number>;
  /** Reads the live settings of the store, for the doctor. */
  settings?(): Promise<StoreSettings>;
  /** Creates or upgrades the tables. */
  migrate?(): Promise<void>;
  /** Why this store cannot call `available`; undefined if it can. */
  readonly refusesAvailable?: string | undefined;
  /** Closes what the store opened itself. */
  close(): Promise<void>;
}
