/**
 * What the settings of a MySQL or MariaDB server mean: whether a session may be used at all, how large an outcome may be,
 * and which faults the server survives (for the doctor).
 */

import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";
import { NevertwiceError } from "../../core/errors.ts";
import { CLUSTER_SQL, enginesSql, SESSION_SQL, SETTINGS_SQL } from "../mysql-sql.ts";
import { type MysqlClient, type MysqlRow, queryRows } from "./client.ts";
import { readText } from "./values.ts";

/** The server's variables by name. A variable that the server does not know is missing. */
export type ServerVariables = Readonly<Record<string, string>>;

function toVariables(rows: readonly MysqlRow[]): ServerVariables {
  return Object.fromEntries(rows.map((row) => [readText(row, "Variable_name"), readText(row, "Value")]));
}

function isOn(value: string | undefined): boolean {
  return value !== undefined && /^(ON|1|YES)$/i.test(value);
}

/** Room in a packet for everything except the outcome: the rest of the record, whose four parts have up to 1,024 bytes each. */
const OTHER_BYTES = 32_768;
const MIN_PACKET_BYTES = 262_144;

/** Returns how many bytes an outcome may have. Throws `store-unsafe` if the session cannot be used. */
export async function checkSession(client: Pick<MysqlClient, "query">): Promise<number> {
  const variables = toVariables(await queryRows(client, SESSION_SQL));
  const problem = sessionProblem(variables);
  if (problem !== undefined) throw new NevertwiceError("store-unsafe", problem);
  // Statements contain an outcome as two hexadecimal digits a byte.
  return Math.floor((Number(variables.max_allowed_packet) - OTHER_BYTES) / 2);
}

function sessionProblem(variables: ServerVariables): string | undefined {
  for (const name of ["read_only", "super_read_only", "innodb_read_only"]) {
    if (isOn(variables[name]))
      return `the server has ${name} = ${variables[name]}, as a replica does: hand in a pool of the primary.`;
  }
  if (!isOn(variables.autocommit))
    return "the pool's connections have autocommit off: nothing that the store writes would be committed.";
  const isolation = variables.transaction_isolation ?? variables.tx_isolation;
  if (isolation === "READ-UNCOMMITTED")
    return "the pool's connections read uncommitted data: an outcome could be replayed and then be rolled back.";
  const packet = Number(variables.max_allowed_packet);
  if (packet < MIN_PACKET_BYTES)
    return `max_allowed_packet is ${packet}; it must be at least ${MIN_PACKET_BYTES}.`;
  return undefined;
}

const NOTES = [
  restoreNote(
    "the server's clock",
    "log_bin and sync_binlog = 1, and after the backup restore the binary log up to its end (mysqlbinlog or mariadb-binlog)",
  ),
  "hand in a pool of the primary: replicas, and proxies that send reads to them, answer with old data",
];

/**
 * Reads the server's live settings. The doctor refuses the store if one of `tables` is missing, or if `refuse` returns a
 * reason.
 */
export async function readDurability(
  client: MysqlClient,
  tables: readonly string[],
  refuse: (variables: ServerVariables) => string | undefined = () => undefined,
): Promise<StoreSettings> {
  const settled = toVariables(await queryRows(client, SETTINGS_SQL));
  const variables = { ...settled, ...toVariables(await queryRows(client, CLUSTER_SQL)) };
  const rows = await queryRows(client, enginesSql(tables));
  const engines = new Map(rows.map((row) => [readText(row, "name"), readText(row, "engine")]));
  const settings = judgeDurability(
    variables,
    tables.map((name) => ({ name, engine: engines.get(name) })),
  );
  const refused = settings.refused ?? refuse(variables);
  return refused === undefined ? settings : { ...settings, refused };
}

export interface TableEngine {
  readonly name: string;
  /** Undefined if the table does not exist. */
  readonly engine: string | undefined;
}

export function judgeDurability(variables: ServerVariables, tables: readonly TableEngine[]): StoreSettings {
  const flush = variables.innodb_flush_log_at_trx_commit ?? "?";
  const isGalera = isOn(variables.wsrep_on);
  const refused = serverProblem(variables, tables);
  return {
    title: `${serverTitle(variables)}, innodb_flush_log_at_trx_commit = ${flush}`,
    survives: {
      "our-crash": { survives: "yes", because: "the server has committed it" },
      "store-crash": storeCrashFinding(flush),
      "power-loss": powerLossFinding(variables, flush),
      failover: isGalera
        ? galeraFinding(variables)
        : { survives: "no", because: "replicas receive commits later, and may not have the last ones" },
    },
    ...(refused !== undefined && { refused }),
    notes: [
      ...NOTES,
      ...(isGalera ? [ONE_WRITER] : []),
      ...(isLoggedByStatement(variables)
        ? ["binlog_format = STATEMENT: replicas compute different deadlines; set it to ROW or MIXED"]
        : []),
    ],
  };
}

const ONE_WRITER =
  "Galera: send every call to one node, and to another one only when that is gone. Each node judges leases by its own clock, " +
  "so after the change a lease may end earlier by the difference";

function galeraFinding(variables: ServerVariables): Finding {
  const raise = [
    ...(Number(variables.wsrep_cluster_size) < 3 ? ["three nodes or more, so that a majority is left"] : []),
    // Its lowest bit is for reads: without it, a node may answer before it has applied what another one acknowledged.
    ...(Number(variables.wsrep_sync_wait) & 1 ? [] : ["wsrep_sync_wait = 7"]),
  ].join(", ");
  return {
    survives: "no",
    because: "Galera (wsrep_on) is known to lose commits that it acknowledged",
    ...(raise !== "" && { raise: `${raise} make it rarer; Postgres or etcd prevent it` }),
  };
}

/** With these, a node that is cut off from the others answers as if it were the whole cluster. */
function splitProblem({ wsrep_on, wsrep_dirty_reads, wsrep_provider_options = "" }: ServerVariables) {
  if (!isOn(wsrep_on)) return undefined;
  const ignored = /pc\.ignore_(?:sb|quorum) = (?:true|yes|on|1)\b/i.exec(wsrep_provider_options)?.[0];
  const unsafe = isOn(wsrep_dirty_reads) ? "wsrep_dirty_reads = ON" : ignored;
  return unsafe && `${unsafe}: a node that is cut off from the others goes on alone. Switch it off.`;
}

export function isLoggedByStatement({ log_bin, binlog_format }: ServerVariables): boolean {
  return isOn(log_bin) && binlog_format === "STATEMENT";
}

function serverTitle({ version = "" }: ServerVariables): string {
  return /mariadb/i.test(version) ? `MariaDB ${version.split("-")[0]}` : `MySQL ${version}`;
}

function serverProblem(variables: ServerVariables, tables: readonly TableEngine[]): string | undefined {
  if (isOn(variables.read_only)) return "the server is read-only: hand in a pool of the primary.";
  const split = splitProblem(variables);
  if (split) return split;
  for (const { name, engine } of tables) {
    if (engine === undefined) return "the tables do not exist: run migrate() once.";
    if (engine.toLowerCase() !== "innodb")
      return `${name} uses the engine ${engine}, which has no transactions: ALTER TABLE ${name} ENGINE = InnoDB`;
  }
  return undefined;
}

function storeCrashFinding(flush: string): Finding {
  const because = `innodb_flush_log_at_trx_commit = ${flush}`;
  if (flush !== "0")
    return { survives: "yes", because: `${because}: every commit is handed to the operating system` };
  return {
    survives: "no",
    because: `${because}: up to a second of commits is only in the server's memory`,
    raise: "set innodb_flush_log_at_trx_commit = 1",
  };
}

function powerLossFinding(variables: ServerVariables, flush: string): Finding {
  const no = (because: string, raise: string): Finding => ({ survives: "no", because, raise });
  // 3 exists in MariaDB only, and flushes more than 1.
  if (flush !== "1" && flush !== "3")
    return no(
      `innodb_flush_log_at_trx_commit = ${flush}: up to a second of commits is not on disk`,
      "set innodb_flush_log_at_trx_commit = 1",
    );
  const doublewrite = variables.innodb_doublewrite;
  if (!isOn(doublewrite))
    return no(
      `innodb_doublewrite = ${doublewrite}: a half-written page cannot be repaired`,
      "set innodb_doublewrite = ON",
    );
  const sync = variables.sync_binlog;
  // After a crash the server rolls back every transaction that its own binary log does not contain.
  if (isOn(variables.log_bin) && sync !== "1")
    return no(
      `sync_binlog = ${sync}: the binary log decides what was committed, and it is not on disk`,
      "set sync_binlog = 1",
    );
  return {
    survives: "yes",
    because: `innodb_flush_log_at_trx_commit = ${flush}: every commit is on disk before it is answered, and ${visibility(variables)}`,
  };
}

/** InnoDB shows a commit to others before it flushes its log, unless a binary log is flushed first. */
function visibility({ log_bin, sync_binlog }: ServerVariables): string {
  return isOn(log_bin) && sync_binlog === "1"
    ? "with sync_binlog = 1 before others see it"
    : "a reader that sees an outcome earlier flushes the log before it replays the outcome (log_bin with sync_binlog = 1 saves that)";
}
