/** The rows that a transaction finds, what it writes, and the port that a store of reservations implements. */

import type { StoreSettings } from "../core/settings.ts";
import type { PurgeReport } from "../core/store.ts";
import type { Answer } from "./answer.ts";
import type { ActionName, Asked, Parameters } from "./asked.ts";
import type { Commitment, CommitmentState } from "./commitment.ts";
import type { Recording } from "./duplicate-prevention.ts";
import type { ChainEnd, Checkpoint, JournalEvent } from "./journal.ts";
import type { Resource } from "./registry.ts";

/** The guard's recording of a key and what it was answered with: one row, so that neither outlives the other. */
export interface KeyRecord extends Recording {
  readonly id: string;
  readonly namespace: string;
  readonly scope: string;
  readonly key: string;
  readonly action: ActionName;
  readonly digest: string;
  readonly parameters: Parameters;
  readonly answer: Answer;
  /** Which commitment it placed or acted on. */
  readonly commitment: string | undefined;
  /** Until when the answer is kept: never before the window ends. */
  readonly keptUntil: number;
}

export interface KeptCommitment extends Commitment, ChainEnd {
  readonly namespace: string;
  /** Units of its resource that it takes up now: all while held, what was confirmed until it is given back, then none. */
  readonly occupied: number;
}

export interface KeptResource extends Resource, ChainEnd {
  readonly namespace: string;
}

/** What a transaction has locked, all of one namespace, in this order: keys, resources, commitments; each by their ids. */
export interface Found {
  readonly keys: ReadonlyMap<string, KeyRecord>;
  readonly resources: ReadonlyMap<string, KeptResource>;
  readonly commitments: ReadonlyMap<string, KeptCommitment>;
  /** For each resource that something is to be placed on: its holds whose time is over, the oldest first. */
  readonly elapsed: ReadonlyMap<string, readonly KeptCommitment[]>;
}

export interface Writes {
  readonly keys: readonly KeyRecord[];
  readonly resources: readonly KeptResource[];
  readonly commitments: readonly KeptCommitment[];
  readonly events: readonly JournalEvent[];
  /** None if nothing happened. */
  readonly checkpoint: Checkpoint | undefined;
}

/** What may be held, beyond capacity: asked inside the transaction, so it must be quick and must not wait. */
export type Availability = (asked: {
  readonly resource: Resource;
  readonly requester: string;
  readonly units: number;
  readonly now: number;
}) => boolean;

/** What a deployment decides. */
export interface Rules {
  /** Which application all of it belongs to: resources, commitments and keys of two never meet. */
  readonly namespace: string;
  readonly windowMs: number;
  /** How long an answer is kept past the window; 0 for not at all. */
  readonly historyMs: number;
  readonly maxDurationMs: number;
  readonly available: Availability | undefined;
}

export interface Place {
  readonly resource: string;
  /**
   * So many of its elapsed holds, the oldest, make all the room that they can be asked for: each gives back a unit at
   * least, and each other action may first have ended one of them, whose room was then taken away.
   */
  readonly most: number;
}

/** Which rows a group of actions needs, all of one namespace. A resource of a commitment is found through the commitment, and locked before it. */
export interface Needs {
  readonly keyIds: readonly string[];
  readonly commitmentIds: readonly string[];
  /** Resources that are named by an action. */
  readonly resources: readonly string[];
  /** Of these, where something is to be placed, in the same order: their elapsed holds are needed too. */
  readonly placements: readonly Place[];
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Hand it to `after` for the next page; absent on the last one. */
  readonly next?: string | undefined;
}

export interface PageQuery {
  readonly namespace: string;
  readonly limit: number;
  readonly after?: string | undefined;
}

export interface CommitmentQuery extends PageQuery {
  readonly resource?: string | undefined;
  readonly requester?: string | undefined;
  readonly state?: CommitmentState | undefined;
}

/** The transaction was rolled back, or never began: nothing was written. */
export class NotWritten extends Error {
  constructor(cause: unknown) {
    super("nothing was written", { cause });
    this.name = "NotWritten";
  }
}

/** The transaction may have been committed or not, and the store does not say. `answers` are what was decided. */
export class MayBeWritten extends Error {
  readonly answers: readonly Answer[];
  constructor(answers: readonly Answer[], cause: unknown) {
    super("nobody knows whether it was written", { cause });
    this.name = "MayBeWritten";
    this.answers = answers;
  }
}

/**
 * A store takes a group of actions, all of the rules' namespace, as one transaction: it locks what they need in the order of `Found`, then reads its
 * clock once, then asks `decide` of reservations.ts, then writes all of it and commits. It fails with `NotWritten` or
 * `MayBeWritten`; groups that fail are repeated one by one by whoever made them, which is safe: a key that was written
 * answers.
 */
export interface ReservationStore {
  transact(group: readonly Asked[], rules: Rules): Promise<readonly Answer[]>;
  /** With the store's time, so that a hold past its own can be shown as elapsed. */
  get(
    namespace: string,
    id: string,
  ): Promise<{ readonly commitment: KeptCommitment | undefined; readonly now: number }>;
  /** In the order of their ids. */
  commitments(query: CommitmentQuery): Promise<Page<KeptCommitment>>;
  resources(query: PageQuery & { readonly name?: string | undefined }): Promise<Page<KeptResource>>;
  keys(
    query: PageQuery & { readonly id?: string | undefined; readonly commitment?: string | undefined },
  ): Promise<Page<KeyRecord>>;
  /** In the order of subject and number. */
  events(query: PageQuery & { readonly subject?: string | undefined }): Promise<Page<JournalEvent>>;
  checkpoints(query: PageQuery): Promise<Page<Checkpoint>>;
  /** Ids of holds whose time is over and that nobody has expired yet, the oldest first. */
  elapsed(namespace: string, limit: number): Promise<readonly string[]>;
  /** Removes keys whose answers are no longer kept, of all namespaces. */
  purge(limit: number): Promise<PurgeReport>;
  /** The store's time. */
  now(): Promise<number>;
  settings?(): Promise<StoreSettings>;
  /** Creates or upgrades the tables. */
  migrate?(): Promise<void>;
  /** Undefined where `available` can be asked; else why not. */
  readonly refusesAvailable?: string | undefined;
  close(): Promise<void>;
}
