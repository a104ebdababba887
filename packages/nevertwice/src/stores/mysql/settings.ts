/** What a MySQL or MariaDB server survives, judged by its live settings. */
import type { Finding, StoreSettings } from "../../core/settings.ts";
import { enginesSql, SETTINGS_SQL } from "../mysql-sql.ts";
import { type MysqlClient, rowsOf } from "./client.ts";
import { textOf } from "./row.ts";
import { isOn, type Variables, variablesOf } from "./session.ts";

const NOTES = [
  "after a failover or a restored backup, fences are as good as the server's clock",
  "hand in a pool of the primary: replicas, and proxies that send reads to them, answer with what was",
];

/** Reads the live settings; all of these tables must be there. `refuse` is what else must not be. */
export async function settingsOf(
  client: MysqlClient,
  tables: readonly string[],
  refuse: (found: Variables) => string | undefined = () => undefined,
): Promise<StoreSettings> {
  const variables = variablesOf(await rowsOf(client, SETTINGS_SQL));
  const rows = await rowsOf(client, enginesSql(tables));
  const found = new Map(rows.map((row) => [textOf(row, "name"), textOf(row, "engine")]));
  const settings = judge(
    variables,
    tables.map((name) => ({ name, engine: found.get(name) })),
  );
  const refused = settings.refused ?? refuse(variables);
  return refused === undefined ? settings : { ...settings, refused };
}

export interface TableEngine {
  readonly name: string;
  /** Undefined where the table is not there. */
  readonly engine: string | undefined;
}

export function judge(found: Variables, tables: readonly TableEngine[]): StoreSettings {
  const flush = found.innodb_flush_log_at_trx_commit ?? "?";
  const isGalera = isOn(found.wsrep_on);
  const refused = refusalOf(found, tables);
  return {
    title: `${titleOf(found)}, innodb_flush_log_at_trx_commit = ${flush}`,
    survives: {
      "our-crash": { survives: "yes", because: "the server has committed it" },
      "store-crash": ofStoreCrash(flush),
      "power-loss": ofPowerLoss(found, flush),
      failover: isGalera
        ? { survives: "no", because: "Galera (wsrep_on) is known to lose commits that it acknowledged" }
        : { survives: "no", because: "replicas are sent what is committed, and may not have it yet" },
    },
    ...(refused !== undefined && { refused }),
    notes: [
      ...NOTES,
      ...(isLoggedByStatement(found)
        ? ["binlog_format = STATEMENT: replicas write deadlines of their own; set it to ROW or MIXED"]
        : []),
    ],
  };
}

export function isLoggedByStatement({ log_bin, binlog_format }: Variables): boolean {
  return isOn(log_bin) && binlog_format === "STATEMENT";
}

function titleOf({ version = "" }: Variables): string {
  return /mariadb/i.test(version) ? `MariaDB ${version.split("-")[0]}` : `MySQL ${version}`;
}

function refusalOf(found: Variables, tables: readonly TableEngine[]): string | undefined {
  if (isOn(found.read_only)) return "the server is read-only: hand in a pool of the primary.";
  for (const { name, engine } of tables) {
    if (engine === undefined) return "the tables are not there: run migrate() once.";
    if (engine.toLowerCase() !== "innodb")
      return `${name} is kept by ${engine}, which commits nothing: ALTER TABLE ${name} ENGINE = InnoDB`;
  }
  return undefined;
}

function ofStoreCrash(flush: string): Finding {
  const because = `innodb_flush_log_at_trx_commit = ${flush}`;
  if (flush !== "0") return { survives: "yes", because: `${because}: every commit is handed to the system` };
  return {
    survives: "no",
    because: `${because}: up to a second of commits is in the server's memory alone`,
    raise: "set innodb_flush_log_at_trx_commit = 1",
  };
}

function ofPowerLoss(found: Variables, flush: string): Finding {
  const no = (because: string, raise: string): Finding => ({ survives: "no", because, raise });
  // 3 is MariaDB's, and flushes more than 1.
  if (flush !== "1" && flush !== "3")
    return no(
      `innodb_flush_log_at_trx_commit = ${flush}: up to a second of commits is not on disk`,
      "set innodb_flush_log_at_trx_commit = 1",
    );
  const doublewrite = found.innodb_doublewrite;
  if (!isOn(doublewrite))
    return no(
      `innodb_doublewrite = ${doublewrite}: a page that was half written stays so`,
      "set innodb_doublewrite = ON",
    );
  const sync = found.sync_binlog;
  // After a crash the server rolls back what its own binary log does not have.
  if (isOn(found.log_bin) && sync !== "1")
    return no(
      `sync_binlog = ${sync}: the binary log decides what was committed, and is not on disk`,
      "set sync_binlog = 1",
    );
  return { survives: "yes", because: `innodb_flush_log_at_trx_commit = ${flush}: every commit is on disk` };
}
