/**
 * How the Postgres store calls its client: a `pg` Pool, or the `sql` of postgres.js. Contains the types of both, the check
 * of what the user handed in, the cancellation of statements, and values as text.
 */
import { NevertwiceError } from "../../core/errors.ts";
import { pendingAnswer } from "../../core/record.ts";
import type { ClaimAnswer } from "../../core/store.ts";

/** The members that the store uses of a `pg` Client, alone or from a Pool. */
export interface PgClient {
  query(text: string): Promise<unknown>;
  query(config: PgQuery): Promise<{ readonly rows: unknown[] }>;
  on(event: "error" | "end", listener: (error?: Error) => void): unknown;
  on(
    event: "notification",
    listener: (message: { readonly channel: string; readonly payload?: string | undefined }) => void,
  ): unknown;
}

export interface PgPoolClient extends PgClient {
  off(event: "error", listener: () => void): unknown;
  /** The id of the server's process for this connection. */
  readonly processID?: unknown;
  /** With an error or true, the pool closes the connection instead of using it again. */
  release(error?: Error | boolean): void;
}

/** A `pg` Pool. */
export interface PgPool {
  query(config: PgQuery): Promise<{ readonly rows: unknown[] }>;
  connect(): Promise<PgPoolClient>;
  on?(event: "error", listener: () => void): unknown;
  off?(event: "error", listener: () => void): unknown;
  readonly totalCount: number;
  /** What the pool creates its connections with; the store creates one more to cancel statements. */
  readonly options?: object;
  readonly Client?: new (config: object) => object;
}

export interface PgQuery {
  name?: string;
  text: string;
  values: string[];
  rowMode: "array";
  types?: { getTypeParser(): (value: string) => string };
}

/** The `sql` of postgres.js. */
export interface PostgresJs {
  unsafe(text: string, parameters?: string[], options?: { prepare?: boolean }): PostgresJsQuery;
  begin(options: string, work: (sql: PostgresJsTransaction) => Promise<unknown>): Promise<unknown>;
  listen(
    channel: string,
    onnotify: (payload: string) => void,
    onlisten?: () => void,
  ): Promise<{ unlisten(): Promise<unknown> }>;
}

export type PostgresJsTransaction = Pick<PostgresJs, "unsafe">;

export interface PostgresJsQuery {
  raw(): PromiseLike<Iterable<readonly ({ toString(): string } | null)[]>>;
}

/** A `pg` Pool, or the `sql` of postgres.js. */
export type PostgresClient = PgPool | PostgresJs;

export interface Statement {
  readonly name: string;
  readonly text: string;
  /** The form for tables that lack the columns which later releases added. */
  readonly unmigrated?: Statement;
}

/** A row of the answer. Every column is text. */
export type PostgresRow = readonly (string | null)[];

/** Runs a statement. If every caller cancels before it is answered, ends the statement or closes its connection. */
export type RunStatement = (
  statement: Statement,
  parameters: readonly string[],
  isCancelled?: IsCancelled,
) => Promise<readonly PostgresRow[]>;

/** What the store needs of a driver. Rejects with the driver's own errors. */
export interface PostgresDriver {
  readonly run: RunStatement;
  transact<T>(work: (run: RunStatement) => Promise<T>, limits?: TransactionLimits): Promise<T>;
  /** Closes each connection of now before its next use: it leads to a server that is not the primary. postgres.js cannot. */
  forsake?(): void;
  /** A cancel ends whatever the connection does at that moment, including a commit that waits for a standby. */
  readonly cancelsBlindly: boolean;
}

/** The same for either driver. Rejects with our errors. */
export interface PostgresRunner extends PostgresDriver {
  /** One statement in a separate transaction with the server's default isolation. One round trip. */
  readonly run: RunStatement;
  /** The same in an explicit READ COMMITTED transaction, whatever the server's default is. */
  readonly runReadCommitted: RunStatement;
  /**
   * Several statements in one READ COMMITTED transaction, which commits when `work` resolves and rolls back when it rejects.
   * If this rejects after `work` has resolved, COMMIT failed, and the transaction may or may not be committed.
   */
  transact<T>(work: (run: RunStatement) => Promise<T>, limits?: TransactionLimits): Promise<T>;
  /** The client has no connection at the moment. */
  hasNoConnection(): boolean;
}

/** How long a transaction may take. */
export interface TransactionLimits {
  readonly isCancelled?: IsCancelled | undefined;
  /** How long to wait for each lock, from the first statement on. postgres.js does not support it. */
  readonly lockTimeoutMs?: number | undefined;
  /** How long each statement may run, except COMMIT, which may wait for a standby: others would see a commit that was cancelled. */
  readonly statementTimeoutMs?: number | undefined;
}

/** The isolation of every transaction of the store. */
export const BEGIN = "ISOLATION LEVEL READ COMMITTED";

/** Throws `store-unsafe` for a client on which the store's commits could become part of the application's transaction. */
export function checkClient(name: string, client: unknown): void {
  if (isPgPool(client) || isPostgresJs(client)) return;
  const { query, unsafe } = (client ?? {}) as Record<string, unknown>;
  if (typeof query === "function") {
    throw new NevertwiceError(
      "store-unsafe",
      `${name} is a single pg connection: an open transaction on it would swallow the store's commits; hand in a pg Pool.`,
    );
  }
  if (typeof unsafe === "function") {
    throw new NevertwiceError(
      "store-unsafe",
      `${name} is a reserved connection or a transaction of postgres.js, which would swallow the store's commits; hand in the sql it was made from.`,
    );
  }
  throw new NevertwiceError("options-invalid", `${name} must be a pg Pool or the sql of postgres.js.`);
}

export function isPgPool(client: unknown): client is PgPool {
  const { query, connect, totalCount } = (client ?? {}) as Partial<PgPool>;
  return typeof query === "function" && typeof connect === "function" && typeof totalCount === "number";
}

/** False for a transaction or a reserved connection, which cannot begin another transaction. */
export function isPostgresJs(client: unknown): client is PostgresJs {
  const { unsafe, begin } = (client ?? {}) as Partial<PostgresJs>;
  return typeof client === "function" && typeof unsafe === "function" && typeof begin === "function";
}

/** Whether every caller of a statement has given up. */
export type IsCancelled = () => boolean;

/** How often to check while a statement runs. Most statements are answered before the first check. */
const CHECK_CANCELLED_MS = 50;

/** For statements that have no caller with a signal. */
export function cancelledAfter(ms: number): IsCancelled {
  const deadline = performance.now() + ms;
  return () => performance.now() >= deadline;
}

/** True once every caller of a shared statement has given up. A call without a signal never gives up. */
export function allCancelled(calls: readonly { readonly signal?: AbortSignal | undefined }[]): IsCancelled {
  return () => calls.every(({ signal }) => signal?.aborted === true);
}

/**
 * Calls `end` once every caller has given up. The returned function stops checking. One timer a statement is several times
 * cheaper than a listener on the signal of every call.
 */
export function onCancelled(isCancelled: IsCancelled | undefined, end: () => void): () => void {
  if (isCancelled === undefined) return () => {};
  const timer = setInterval(() => {
    if (!isCancelled()) return;
    clearInterval(timer);
    end();
  }, CHECK_CANCELLED_MS);
  timer.unref?.();
  return () => clearInterval(timer);
}

/** The error of a cancelled call. The server may still have carried it out, as with every lost answer. */
export function cancelledError(): NevertwiceError {
  return new NevertwiceError(
    "unavailable",
    "Postgres: it did not answer before every caller cancelled the call.",
  );
}

export function ignore(): void {}

/*
 * Values are sent and read as the text that Postgres itself uses. So they are the same for every driver, whatever
 * serializers the application has configured.
 */

/** An array literal of strings; undefined becomes NULL. */
export function textArray(values: Iterable<string | undefined>): string {
  let text = "{";
  for (const value of values) {
    if (text.length > 1) text += ",";
    text += value === undefined ? "NULL" : quoteElement(value);
  }
  return `${text}}`;
}

/** An array literal of numbers or booleans, which need no quotes. */
export function plainArray(values: readonly (number | boolean | undefined)[]): string {
  return `{${values.map((value) => value ?? "NULL").join(",")}}`;
}

/** What JSON escapes differently from an array literal: control characters and lone surrogates. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for control characters.
const UNLIKE_JSON = /[\u0000-\u001f\ud800-\udfff]/;

/** JSON and array literals escape quotes and backslashes the same way, and JSON.stringify is three times as fast. */
function quoteElement(text: string): string {
  return UNLIKE_JSON.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : JSON.stringify(text);
}

export function microseconds(ms: number): number {
  return Math.round(ms * 1_000);
}

/** A time in milliseconds, from text in microseconds. */
export function momentMs(text: string): number {
  return Math.floor(Number(text) / 1_000);
}

/** The rest of a lease in milliseconds, from text in microseconds. Rounded up: the lease does not end earlier. */
export function leftMs(text: string): number {
  return Math.ceil(Number(text) / 1_000);
}

/** The answer of `pending`, from the text of `pendingDetail` in claims-sql.ts. */
export function toPending(detail: string): ClaimAnswer {
  const [left = "0", elapsed] = detail.split(" ");
  return pendingAnswer(leftMs(left), elapsed === undefined ? undefined : momentMs(elapsed));
}
