/** The records as rows: finds, writes, removes and scans them. Prepares each statement once for its connection. */
import { NevertwiceError } from "../../core/errors.ts";
import { partsFrom, partsText } from "../../core/parts.ts";
import type { Kept } from "../../core/record.ts";
import * as sql from "../sqlite-sql.ts";
import { prepareQuery, type Row, rollBack, type SqliteDatabase, type SqlValue } from "./driver.ts";
import { BEGIN, BEGIN_WRITING, COMMIT } from "./session-sql.ts";

/** A record and where it is kept. */
export interface Found {
  readonly rowid: number;
  readonly purgeAt: number | null;
  readonly kept: Kept;
}

export interface Table {
  begin(): void;
  beginWriting(): void;
  commit(): void;
  rollback(): void;
  find(id: string): Found | undefined;
  write(found: Found | undefined, kept: Kept): void;
  remove(found: Found): void;
  lastFence(): number;
  keepFence(fence: number): void;
  /** Removes at most `limit` records that are past their time; answers how many. */
  purge(now: number, limit: number): number;
  /** The next `count` records by id, without their outcomes. */
  scan(after: string | undefined, count: number): readonly Kept[];
  /** Whether an attempt holds this id, as far as is written: its lease may be over. */
  isPending(id: string): boolean;
  /** Differs from the last answer if another connection has written since. */
  dataVersion(): number;
}

export function createTable(database: SqliteDatabase, waiting: (step: () => void) => void): Table {
  const begin = database.prepare(BEGIN);
  const beginWriting = database.prepare(BEGIN_WRITING);
  const commit = database.prepare(COMMIT);
  const find = prepareQuery(database, sql.FIND);
  const insert = database.prepare(sql.INSERT);
  const update = database.prepare(sql.UPDATE);
  const updateWhole = database.prepare(sql.UPDATE_WHOLE);
  const remove = database.prepare(sql.REMOVE);
  const lastFence = prepareQuery(database, sql.LAST_FENCE);
  const keepFence = database.prepare(sql.KEEP_FENCE);
  const hasExpired = prepareQuery(database, sql.HAS_EXPIRED);
  const purge = database.prepare(sql.PURGE);
  const scan = prepareQuery(database, sql.SCAN);
  const isPending = prepareQuery(database, sql.IS_PENDING);
  const dataVersion = prepareQuery(database, sql.DATA_VERSION);
  return {
    begin: () => void begin.run(),
    beginWriting: () => waiting(() => void beginWriting.run()),
    commit: () => void commit.run(),
    rollback: () => rollBack(database),
    find(id) {
      const row = find.first(toColumn(id));
      return row === undefined ? undefined : fromRow(id, row);
    },
    write(found, kept) {
      const purgeAt = purgeAtOf(kept, found?.purgeAt ?? null);
      const [usual, parts, outcome] = toColumns(kept);
      if (found === undefined) insert.run(toColumn(kept.id), purgeAt, ...usual, parts(), outcome);
      else if (purgeAt === found.purgeAt && kept.parts === found.kept.parts)
        update.run(...usual, outcome, found.rowid);
      else updateWhole.run(purgeAt, ...usual, parts(), outcome, found.rowid);
    },
    remove: ({ rowid }) => void remove.run(rowid),
    lastFence: () => lastFence.first()?.[0] as number,
    keepFence: (fence) => void keepFence.run(fence),
    purge: (now, limit) =>
      hasExpired.first(now) === undefined ? 0 : Number(purge.run(now, limit, now).changes),
    scan: (after, count) =>
      scan
        .all(after === undefined ? "" : toColumn(after), count)
        .map(([id, ...row]) => fromRow(fromColumn(id), row).kept),
    isPending: (id) => isPending.first(toColumn(id))?.[0] === 1,
    dataVersion: () => dataVersion.first()?.[0] as number,
  };
}

const DIGEST = /^[0-9a-f]{64}$/;

/** A digest takes 32 bytes. Any other id is its JSON: no two are alike then, and nothing in it can end a text. */
function toColumn(id: string): SqlValue {
  return DIGEST.test(id) ? Buffer.from(id, "hex") : JSON.stringify(id);
}

function fromColumn(value: unknown): string {
  return typeof value === "string" ? JSON.parse(value) : Buffer.from(value as Uint8Array).toString("hex");
}

/**
 * When to look whether the record may be purged: never before it may, and a little after, so that renewing or completing
 * it seldom has to move it in the index. A held pending record is not to be looked at.
 */
function purgeAtOf(kept: Kept, before: number | null): number | null {
  const { state, hold, keptUntil, retentionMs } = kept;
  if (state === "pending" && hold) return null;
  if (before !== null && before >= keptUntil && before <= keptUntil + retentionMs / 16) return before;
  return keptUntil + Math.floor(retentionMs / 32);
}

function toColumns(kept: Kept): readonly [usual: SqlValue[], parts: () => SqlValue, outcome: SqlValue] {
  const usual = [
    kept.state,
    whole(kept.token),
    Number(kept.spent),
    kept.fence,
    kept.number,
    Number(kept.hold),
    Number(kept.tookOver),
    kept.claimedAt,
    kept.leaseMs,
    kept.leaseEndsAt,
    kept.retentionMs,
    kept.keptUntil,
    kept.completedAt ?? null,
    whole(kept.fingerprint),
  ];
  return [usual, () => (kept.parts === undefined ? null : partsText(kept.parts)), whole(kept.outcome)];
}

/** Some drivers end a text at U+0000, and half an outcome would be replayed as if it were all of it. */
function whole(text: string | undefined): string | null {
  if (!text?.includes("\u0000")) return text ?? null;
  throw new NevertwiceError(
    "options-invalid",
    "a token, fingerprint or outcome for SQLite has U+0000 in it.",
  );
}

type Columns = readonly [
  rowid: number,
  purgeAt: number | null,
  state: Kept["state"],
  token: string,
  spent: number,
  fence: number,
  number: number,
  hold: number,
  tookOver: number,
  claimedAt: number,
  leaseMs: number,
  leaseEndsAt: number,
  retentionMs: number,
  keptUntil: number,
  completedAt: number | null,
  fingerprint: string | null,
  parts: string | null,
  outcome: string | null,
];

function fromRow(id: string, row: Row): Found {
  const [
    rowid,
    purgeAt,
    state,
    token,
    spent,
    fence,
    number,
    hold,
    tookOver,
    claimedAt,
    leaseMs,
    leaseEndsAt,
    retentionMs,
    keptUntil,
    completedAt,
    fingerprint,
    parts,
    outcome,
  ] = row as Columns;
  const kept: Kept = {
    id,
    parts: parts === null ? undefined : partsFrom(parts),
    fingerprint: fingerprint ?? undefined,
    state,
    token,
    spent: spent === 1,
    fence,
    number,
    hold: hold === 1,
    tookOver: tookOver === 1,
    claimedAt,
    leaseMs,
    leaseEndsAt,
    retentionMs,
    keptUntil,
    completedAt: completedAt ?? undefined,
    outcome: outcome ?? undefined,
  };
  return { rowid, purgeAt, kept };
}
