/**
 * What an outbox needs of a database. One row is one message that is not delivered yet; a delivered message is deleted. The
 * column `due_at` alone says when a relay may look at a row:
 *
 *   0      new: at once, whatever the clock says
 *   time   claimed until then (there is a token), or waiting for its next attempt (there is none). 1 is a time long past:
 *          its turn has come, or an operator wants it tried again
 *   NULL   behind an older message of its key, or parked (`parked_at` says which)
 *
 * A claim takes rows that are due. A row with an older one of its key is not claimed but put behind it (NULL), so that a
 * later claim need not look at it again: every row is looked at a bounded number of times, however many wait. Deleting a
 * message makes the oldest row of its key due again.
 *
 * No row may be forgotten between those two steps:
 *
 *   claim   lock an older row ── put this row behind it ── commit
 *   delete                       delete the older row (waits for the lock) ── read the key anew ── its oldest: due
 *
 * A row is put behind another one only under a lock on that row, and a deletion reads the key after it has that lock. So
 * either the deletion sees the row that was put behind, or the claim finds the older row locked or gone, and leaves its own
 * row due for the next claim. Producers only insert, and always with 0: a transaction that commits late is seen when it
 * commits.
 */
import type { StoredMessage } from "./message.ts";

/** A message that was claimed. */
export interface ClaimedMessage {
  readonly seq: string;
  readonly id: string;
  readonly topic: string;
  readonly key: string | undefined;
  readonly content: string;
  readonly createdAt: number;
  /** 1 for the first attempt. */
  readonly attempts: number;
}

export interface OutboxClaim {
  readonly namespace: string;
  readonly limit: number;
  /** How many of them may be rows whose time has come; the others are new. Neither kind keeps the other waiting. */
  readonly lateLimit: number;
  /**
   * Leaves out new rows before this one, which were claimed or put behind: until they are vacuumed, passing over them takes
   * time. A transaction that commits late has written such a row, so a relay asks with 0 once a second.
   */
  readonly from: string;
  readonly leaseMs: number;
  readonly token: string;
}

export interface OutboxClaimReply {
  readonly messages: readonly ClaimedMessage[];
  /** How many rows the claim changed: those it claimed, and those it put behind an older one. */
  readonly changed: number;
  /** The first new row that it looked at, if there was one. */
  readonly first: string | undefined;
}

/** One row and how its attempt ended. */
export interface ClaimedRow {
  readonly seq: string;
  readonly token: string;
}

export interface FailedRow extends ClaimedRow {
  readonly delayMs: number;
  readonly error: string;
}

export interface ParkedRow extends ClaimedRow {
  readonly error: string;
}

export interface OutboxSettlement {
  readonly namespace: string;
  readonly delivered: readonly ClaimedRow[];
  /** The keys of the delivered messages that have one. */
  readonly keys: readonly string[];
  readonly failed: readonly FailedRow[];
  readonly parked: readonly ParkedRow[];
  /** Claimed, but not tried: due again at once, and the attempt does not count. */
  readonly released: readonly ClaimedRow[];
}

export interface OutboxSettled {
  /** How many of the delivered messages still had their token. The others were taken over by another relay. */
  readonly deleted: number;
  /** How many messages became due because the one in front of them was deleted. */
  readonly advanced: number;
}

/**
 * `waiting`: due, or its next attempt is planned. `behind`: an older message of its key comes first. `delivering`: a relay
 * has claimed it. `parked`: its attempts are used up, or an operator parked it.
 */
export type MessageState = "waiting" | "behind" | "delivering" | "parked";

/** A message as operators see it, without its body and headers. */
export interface MessageView {
  /** The id of the message. */
  readonly id: string;
  /** The topic of the message. */
  readonly topic: string;
  /** Its key; undefined if it has none. */
  readonly key: string | undefined;
  /** Whose message it is; undefined if it has no scope. */
  readonly scope: string | undefined;
  /** Whether it waits, is being delivered, or is parked. */
  readonly state: MessageState;
  /** When it was written, in milliseconds since the epoch. */
  readonly createdAt: number;
  /** How many deliveries were tried. */
  readonly attempts: number;
  /** When the next attempt is due, or when the lease of the present one ends. Absent for a message that is due now. */
  readonly dueAt?: number | undefined;
  /** When it was parked, in milliseconds since the epoch; undefined unless parked. */
  readonly parkedAt?: number | undefined;
  /** Why the last attempt failed. */
  readonly lastError?: string | undefined;
}

/** Which messages to list. */
export interface ListQuery {
  /** Only messages in this state. */
  readonly state?: MessageState | undefined;
  /** Only messages of this topic. */
  readonly topic?: string | undefined;
  /** Only messages with this key. */
  readonly key?: string | undefined;
  /** The most messages on a page. */
  readonly limit: number;
  /** The `next` of the page before. */
  readonly after?: string | undefined;
}

/** One page of messages. */
export interface MessagePage {
  /** The messages of this page. */
  readonly messages: readonly MessageView[];
  /** Give it as `after` for the next page; absent after the last one. A page may be short, or empty, and still have a next. */
  readonly next?: string | undefined;
}

/** How much there is to deliver. */
export interface OutboxFigures {
  /** Messages that are not delivered yet; at most `countedUpTo`. */
  readonly undelivered: number;
  /** Those that are due, or whose next attempt is planned. */
  readonly waiting: number;
  /** Those that a relay could take now. */
  readonly due: number;
  /** How many messages are being delivered now. */
  readonly delivering: number;
  /** How many messages wait behind another one with the same key. */
  readonly behind: number;
  /** How many messages are parked: their deliveries have failed too often. */
  readonly parked: number;
  /** The age of the oldest message that is neither parked nor behind another one. */
  readonly oldestMs: number | undefined;
  /** The topics of the oldest messages, most frequent first. */
  readonly topics: readonly {
    /** The topic. */
    readonly topic: string;
    /** How many undelivered messages it has. */
    readonly messages: number;
  }[];
  /** Each number is counted up to this: with more messages, it is this number. */
  readonly countedUpTo: number;
}

export interface OutboxStore {
  /** The text that inserts the messages in a transaction of the application. */
  insertText(namespace: string, messages: readonly StoredMessage[], isNotified: boolean): string;
  /** The same on the SQLite connection of the application; undefined on other databases. */
  readonly insertOn?:
    | ((database: object, namespace: string, messages: readonly StoredMessage[]) => void)
    | undefined;
  claim(request: OutboxClaim): Promise<OutboxClaimReply>;
  settle(request: OutboxSettlement): Promise<OutboxSettled>;
  /** Extends the leases of these rows. Returns the `seq` of those that still had their token. */
  renew(held: readonly ClaimedRow[], leaseMs: number): Promise<readonly string[]>;
  /** Makes rows due whose time is further away than any relay writes: the clock of the server went back. */
  repair(namespace: string): Promise<void>;
  list(namespace: string, query: ListQuery): Promise<MessagePage>;
  /** The next three answer false if there is no such message, or if a relay is delivering it. */
  retry(namespace: string, id: string): Promise<boolean>;
  park(namespace: string, id: string): Promise<boolean>;
  discard(namespace: string, id: string): Promise<boolean>;
  /** Deletes up to `limit` messages of a scope. Returns how many. */
  forget(namespace: string, scope: string, limit: number): Promise<number>;
  figures(namespace: string): Promise<OutboxFigures>;
  migrate(): Promise<void>;
  /** Calls `wake` when messages of the namespace were committed, where the database can tell. Returns how to stop. */
  watch?(namespace: string, wake: () => void): Promise<() => void>;
  close(): Promise<void>;
}

/** The longest lease or delay that a relay may write. A later time in a row means that the server's clock went back. */
export const MAX_DELAY_MS = 3_600_000;
/** How far a time may be beyond that before `repair` changes it. */
export const REPAIR_MARGIN_MS = 60_000;
/** OutboxFigures are counted up to this. */
export const MAX_COUNTED = 10_000;
/** How many rows one page of a list looks at. */
export const MAX_LOOKED = 5_000;
