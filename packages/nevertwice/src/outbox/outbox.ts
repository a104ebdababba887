/** `createOutbox`: messages that are written in the application's transaction, and the operators' view of them. */
import { randomUUID } from "node:crypto";
import type { SqliteConnection } from "../core/database-handle.ts";
import { ENQUEUE_DOOR, type EnqueueDoor } from "../core/enqueue.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isBoolean, isClock, isText, wholeFrom } from "../core/option-checks.ts";
import { type Keyring, keyringFrom, type SealingOptions } from "../sealing/keyring.ts";
import { seal, unseal } from "../sealing/seal.ts";
import { isSchemaName } from "../stores/postgres/schema.ts";
import { runInside } from "../transaction/inside.ts";
import { isConnection } from "../transaction/sqlite.ts";
import { type OutboxDatabase, toOutboxStore } from "./database.ts";
import { decodeContent, type OutgoingMessage, type StoredMessage, toStored } from "./message.ts";
import { createRelay, type Relay } from "./relay.ts";
import { type RelayOptions, toRelaySettings } from "./relay-options.ts";
import type { ListQuery, MessagePage, MessageState, OutboxFigures, OutboxStore } from "./store.ts";

/** Settings of an outbox on any database. */
export interface OutboxSettings {
  /**
   * Which application the messages belong to. Relays deliver the messages of their own namespace.
   * @default "default"
   */
  readonly namespace?: string | undefined;
  /**
   * The largest message, headers included, in bytes as stored.
   * @default 262_144 (256 KiB)
   */
  readonly maxMessageBytes?: number | undefined;
  /** Encrypts body and headers with these keys, as `sealed` does with outcomes. Topics, keys and scopes are not encrypted. */
  readonly sealing?: SealingOptions | (() => SealingOptions) | undefined;
  /**
   * Whether `send` also notifies relays that have a `subscriber` (Postgres only). All transactions that
   * notify commit one after another, so leave it off where many producers commit at once: relays poll.
   * @default false
   */
  readonly notify?: boolean | undefined;
}

/** Where the messages are, with `client`, `database` or `file`, and how they are written. */
export interface OutboxOptions extends OutboxDatabase, OutboxSettings {}

/** The defaults of `OutboxSettings`. */
export const OUTBOX_DEFAULTS = { namespace: "default", maxMessageBytes: 262_144, notify: false } as const;

/** On the synchronous connection of SQLite the id is returned at once; elsewhere it is a promise. */
export type SendResult<Tx, T> = Tx extends SqliteConnection ? T : Promise<T>;

/** Messages that are written in your transactions and delivered by relays. */
export interface Outbox {
  /**
   * Writes a message in your transaction, and returns its id. It is delivered if you commit, and never if you roll back.
   * `tx` is what `once` accepts: a transaction that you have open. Throws `options-invalid`, `key-invalid`, or `body-too-large`.
   */
  send<Tx>(tx: Tx, message: OutgoingMessage): SendResult<Tx, string>;
  /** Writes several messages with one statement, in this order. */
  sendAll<Tx>(tx: Tx, messages: readonly OutgoingMessage[]): SendResult<Tx, readonly string[]>;
  /** A relay that delivers the messages of this outbox. Several relays, in one process or many, share the work. */
  relay(options: RelayOptions): Relay;
  /** Lists undelivered messages, oldest first, without their bodies. `limit` is 100 by default, and at most 1,000. */
  list(query?: Partial<ListQuery>): Promise<MessagePage>;
  /** Makes a message due now, and its attempts start from 1 again. False if there is none, or if it is being delivered. */
  retry(id: string): Promise<boolean>;
  /** Keeps a message from being delivered, and with it the later ones of its key. False as for `retry`. */
  park(id: string): Promise<boolean>;
  /** Deletes a message without delivering it; the next one of its key follows. False as for `retry`. */
  discard(id: string): Promise<boolean>;
  /** Deletes the undelivered messages of a scope, those that are being delivered too. Returns how many. */
  forget(whose: {
    /** Whose messages are forgotten. */
    readonly scope: string;
  }): Promise<number>;
  /** What is waiting, each number counted up to a limit. */
  figures(): Promise<OutboxFigures>;
  /** The messages of another application in the same table, on the same client. It is closed with this outbox. */
  with(options: {
    /** The namespace of the other outbox. */
    readonly namespace: string;
  }): Outbox;
  /** Creates or upgrades the table. It may be called again, and by several processes at the same time. */
  migrate(): Promise<void>;
  /** Stops the relays of this outbox, and closes what it opened itself. Your client stays open. */
  close(): Promise<void>;
}

const LIST_LIMIT = 100;
const MAX_LIST_LIMIT = 1_000;
const FORGOTTEN_AT_ONCE = 1_000;
const STATES: readonly MessageState[] = ["waiting", "behind", "delivering", "parked"];

const CHECKS: Readonly<Record<string, Check>> = {
  // Checked by the database's own code.
  client: () => {},
  subscriber: () => {},
  database: () => {},
  file: isText,
  clock: isClock,
  schema: isSchemaName,
  namespace: (name, value) => void checkedPart(value, name, "options-invalid"),
  maxMessageBytes: wholeFrom(1),
  sealing: () => {},
  notify: isBoolean,
};

/**
 * Creates an outbox in the database of your transactions. A single connection in place of a pool is `store-unsafe`.
 * @throws `options-invalid`, `store-unsafe`
 * @example
 * ```ts server
 * import pg from "pg";
 * import { createOutbox } from "nevertwice/outbox";
 * import { httpDeliverer } from "nevertwice/outbox/http";
 *
 * const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
 * const outbox = createOutbox({ client: pool });
 * await outbox.migrate();
 *
 * const tx = await pool.connect();
 * await tx.query("BEGIN");
 * await outbox.send(tx, { topic: "order.paid", body: { order: "order-17" } });
 * await tx.query("COMMIT");
 * tx.release();
 *
 * const secret = process.env.OUTBOX_SECRET ?? "";
 * outbox.relay({ deliver: httpDeliverer({ url: "https://billing.example.com/events", secret }) }).start();
 * ```
 */
export function createOutbox(options: OutboxOptions): Outbox {
  checkOptions(options, CHECKS);
  return outboxOn(toOutboxStore(options), options);
}

function outboxOn(
  store: OutboxStore,
  {
    sealing,
    ...options
  }: Partial<Pick<OutboxOptions, "namespace" | "maxMessageBytes" | "sealing" | "notify">>,
): Outbox {
  const { namespace = OUTBOX_DEFAULTS.namespace } = options;
  const { maxMessageBytes = OUTBOX_DEFAULTS.maxMessageBytes, notify = OUTBOX_DEFAULTS.notify } = options;
  const keyring = sealing === undefined ? undefined : keyringFrom(sealing);
  const limits = { maxMessageBytes, seal: (id: string, text: string) => sealedWith(keyring, id, text) };
  const relays = new Set<Relay>();
  const others = new Set<Outbox>();
  let closing: Promise<void> | undefined;

  function write<T>(tx: unknown, messages: readonly StoredMessage[], answer: T): T | Promise<T> {
    if (isConnection(tx)) {
      if (store.insertOn === undefined) throw otherDatabase();
      store.insertOn(tx, namespace, messages);
      return answer;
    }
    if (store.insertOn !== undefined) throw otherDatabase();
    const run = runInside(tx);
    return run(store.insertText(namespace, messages, notify)).then(() => answer);
  }

  const door: EnqueueDoor = {
    send: (tx, message, id) => write(tx, [toStored(message, id, limits)], id),
  };

  /** A promise that rejects on databases with promises; a throw on SQLite, where `send` returns no promise. */
  function sent<Tx, T>(tx: Tx, writing: () => T | Promise<T>): SendResult<Tx, T> {
    if (isConnection(tx)) return writing() as SendResult<Tx, T>;
    return (async () => writing())() as SendResult<Tx, T>;
  }

  const outbox: Outbox = {
    send: (tx, message) => sent(tx, () => door.send(tx, message, randomUUID())),
    sendAll: (tx, messages) =>
      sent(tx, () => {
        if (!Array.isArray(messages)) throw invalid("messages must be an array.");
        const stored = messages.map((message) => toStored(message, randomUUID(), limits));
        const ids: readonly string[] = stored.map(({ id }) => id);
        return stored.length === 0 ? ids : write(tx, stored, ids);
      }),
    relay(relayOptions) {
      const relay = createRelay(
        {
          store,
          namespace,
          isSealed: keyring !== undefined,
          open: (id, content) => decodeContent(openedWith(keyring, id, content)),
        },
        toRelaySettings(relayOptions),
      );
      relays.add(relay);
      return relay;
    },
    list: async (query = {}) => store.list(namespace, checkedQuery(query)),
    retry: async (id) => store.retry(namespace, checkedId(id)),
    park: async (id) => store.park(namespace, checkedId(id)),
    discard: async (id) => store.discard(namespace, checkedId(id)),
    async forget(whose) {
      checkOptions(whose, { scope: isText });
      if (whose.scope === undefined) throw new NevertwiceError("scope-missing", "scope is missing.");
      const scope = checkedPart(whose.scope, "scope", "scope-missing");
      for (let forgotten = 0; ; ) {
        const now = await store.forget(namespace, scope, FORGOTTEN_AT_ONCE);
        forgotten += now;
        if (now < FORGOTTEN_AT_ONCE) return forgotten;
      }
    },
    figures: async () => store.figures(namespace),
    with(other) {
      checkOptions(other, { namespace: CHECKS.namespace as Check });
      // The client belongs to this outbox, which closes it.
      const made = outboxOn({ ...store, close: async () => {} }, { ...options, sealing, ...other });
      others.add(made);
      return made;
    },
    migrate: async () => store.migrate(),
    close() {
      closing ??= (async () => {
        await Promise.all([...relays].map((relay) => relay.stop()));
        await Promise.all([...others].map((other) => other.close()));
        await store.close();
      })();
      return closing;
    },
  };
  return Object.assign(outbox, { [ENQUEUE_DOOR]: door });
}

function sealedWith(keyring: (() => Keyring) | undefined, id: string, text: string): string {
  return keyring === undefined ? text : seal(keyring(), id, text);
}

function openedWith(keyring: (() => Keyring) | undefined, id: string, text: string): string {
  return keyring === undefined ? text : unseal(keyring(), id, text);
}

function checkedId(id: unknown): string {
  return checkedPart(id, "id", "options-invalid");
}

function checkedQuery(query: Partial<ListQuery>): ListQuery {
  checkOptions(query, {
    state: (name, value) => {
      if (!STATES.includes(value as MessageState))
        throw invalid(`${name} must be one of ${STATES.join(", ")}.`);
    },
    topic: isText,
    key: isText,
    limit: wholeFrom(1),
    after: (name, value) => {
      if (typeof value !== "string" || !/^\d{1,18}$/.test(value))
        throw invalid(`${name} must be the next of a page.`);
    },
  });
  return { ...query, limit: Math.min(query.limit ?? LIST_LIMIT, MAX_LIST_LIMIT) };
}

function otherDatabase(): NevertwiceError {
  return invalid(
    "the transaction is not one of the outbox's database: hand in a transaction of the same database, or on SQLite the connection that the outbox was created with.",
  );
}

function invalid(message: string): NevertwiceError {
  return new NevertwiceError("options-invalid", message);
}
