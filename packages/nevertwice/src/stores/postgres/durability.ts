/** Which faults an acknowledged claim survives, judged by the server's settings, for the doctor. */
import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";
import type { PostgresRow } from "./client.ts";

/** Whether a commit of this session waits for a standby. */
export const WAITS_FOR_STANDBYS = `(current_setting('synchronous_standby_names') <> ''
      AND current_setting('synchronous_commit') NOT IN ('off', 'local'))::text`;

/** The values that `SHOW` reports in the session that was queried. */
export interface PostgresSettings {
  readonly version: string;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  readonly synchronousStandbyNames: string;
  /** The table is UNLOGGED. */
  readonly isUnlogged: boolean;
  /** How many standbys take part in a synchronous commit; undefined if the role may not see them. */
  readonly synchronousStandbys: number | undefined;
  /** Undefined if it was not asked for. */
  readonly walCompression: string | undefined;
  /** How much log may be written between two checkpoints; undefined if it was not asked for. */
  readonly maxWalMegabytes: number | undefined;
  /** Its command line has what Patroni passes to every server that it starts; undefined if it was not asked for. */
  readonly isPatroni?: boolean | undefined;
  /** What keeps the server from cleaning up purged records, each as a clause. */
  readonly oldTransactions: readonly string[];
}

/** From rows of (name, value). */
export function toPostgresSettings(rows: readonly PostgresRow[]): PostgresSettings {
  const values = new Map(rows.map(([name, value]) => [name, value]));
  const text = (name: string) => values.get(name) ?? "";
  const standbys = values.get("standbys");
  const maxWal = values.get("max_wal_megabytes");
  return {
    version: text("server_version"),
    fsync: text("fsync"),
    fullPageWrites: text("full_page_writes"),
    synchronousCommit: text("synchronous_commit"),
    synchronousStandbyNames: text("synchronous_standby_names"),
    isUnlogged: text("relpersistence") === "u",
    synchronousStandbys: typeof standbys === "string" ? Number(standbys) : undefined,
    walCompression: values.get("wal_compression") ?? undefined,
    maxWalMegabytes: typeof maxWal === "string" ? Number(maxWal) : undefined,
    isPatroni: values.get("patroni") === "true",
    oldTransactions: rows.flatMap(([name, value]) =>
      name === "old transaction" && typeof value === "string" ? [value] : [],
    ),
  };
}

export function judgeDurability(settings: PostgresSettings, table = "nevertwice_records"): StoreSettings {
  const { version, fsync, synchronousCommit, synchronousStandbyNames } = settings;
  const storeCrash = storeCrashFinding(settings, table);
  const powerLoss = storeCrash.survives === "yes" ? powerLossFinding(settings) : storeCrash;
  const failover = powerLoss.survives === "yes" ? failoverFinding(settings) : powerLoss;
  return {
    title: `Postgres ${version}, synchronous_commit ${synchronousCommit}, fsync ${fsync}, ${
      synchronousStandbyNames === "" ? "no synchronous standby" : `standbys ${synchronousStandbyNames}`
    }`,
    survives: {
      "our-crash": { survives: "yes", because: "the records are in the server, not in our process" },
      "store-crash": storeCrash,
      "power-loss": powerLoss,
      failover,
    },
    notes: [
      "synchronous_commit is the value of the session that was queried; a role or a database may have a different one",
      restoreNote("the server's clock"),
      ...(settings.isPatroni ? [PATRONI] : []),
      ...logNotes(settings),
      ...settings.oldTransactions.map(
        (old) =>
          `${old}: until it ends, the space of purged records cannot be used again, and purges become slower`,
      ),
    ],
  };
}

/** The default of max_wal_size. */
const SMALL_WAL_MEGABYTES = 1_024;

/** Ids are hashes, so each claim changes another page of their index: with many keys, one that the log gets as a whole. */
function logNotes({ fullPageWrites, walCompression, maxWalMegabytes }: PostgresSettings): readonly string[] {
  if (fullPageWrites !== "on" || walCompression === undefined || maxWalMegabytes === undefined) return [];
  const advice = [
    ...(walCompression === "off" ? ["wal_compression = on"] : []),
    ...(maxWalMegabytes <= SMALL_WAL_MEGABYTES
      ? ["a larger max_wal_size (after a crash the server takes longer to start)"]
      : []),
  ];
  if (advice.length === 0) return [];
  return [
    `wal_compression ${walCompression}, max_wal_size ${maxWalMegabytes} MB: the log gets a whole page for the first change of the page after a checkpoint, which with millions of keys is most of the log. For a smaller log, set ${advice.join(" and ")}`,
  ];
}

function storeCrashFinding({ isUnlogged, synchronousCommit }: PostgresSettings, table: string): Finding {
  if (isUnlogged) {
    return {
      survives: "no",
      because: `${table} is UNLOGGED: a crash empties it`,
      raise: `ALTER TABLE ${table} SET LOGGED`,
    };
  }
  if (synchronousCommit === "off") {
    return {
      survives: "no",
      because:
        "synchronous_commit off: a killed server loses the commits of the last three wal_writer_delay intervals",
      raise: "synchronous_commit = on",
    };
  }
  return {
    survives: "yes",
    because: `synchronous_commit ${synchronousCommit}: a commit is in the log before it is acknowledged`,
  };
}

function powerLossFinding({ fsync, fullPageWrites, synchronousCommit }: PostgresSettings): Finding {
  if (fsync !== "on")
    return {
      survives: "no",
      because: `fsync ${fsync}: the log is never forced to disk`,
      raise: "fsync = on",
    };
  if (fullPageWrites !== "on") {
    return {
      survives: "no",
      because: `full_page_writes ${fullPageWrites}: a half-written page cannot be repaired`,
      raise: "full_page_writes = on, unless the file system never tears a page",
    };
  }
  return {
    survives: "yes",
    because: `fsync on, synchronous_commit ${synchronousCommit}, full_page_writes on`,
  };
}

const PATRONI =
  "Patroni runs this server. With synchronous_mode it promotes only a standby that was synchronous. No SQL shows whether " +
  "synchronous_mode_strict is on: without it, commits wait for no standby while none is connected, and only the disk of this server has them. " +
  "Choose leaseMs at least twice as long as its ttl and loop_wait together";

const RAISE_PATRONI = "patronictl edit-config -s synchronous_mode=true -s synchronous_mode_strict=true";

const RAISE_FAILOVER =
  "synchronous_standby_names = 'ANY 1 (…)' with synchronous_commit = on, and a failover that promotes only a standby that was synchronous";

function failoverFinding(settings: PostgresSettings): Finding {
  const { synchronousCommit, synchronousStandbyNames, synchronousStandbys } = settings;
  if (synchronousStandbyNames === "") {
    return {
      survives: "no",
      because: "synchronous_standby_names is empty: a standby may be behind when it is promoted",
      raise: settings.isPatroni ? RAISE_PATRONI : RAISE_FAILOVER,
    };
  }
  if (synchronousCommit !== "on" && synchronousCommit !== "remote_apply") {
    return {
      survives: "no",
      because: `synchronous_commit ${synchronousCommit}: a commit is acknowledged before a standby has it on disk`,
      raise: "synchronous_commit = on",
    };
  }
  if (synchronousStandbys === 0) {
    return {
      survives: "no",
      because: `synchronous_standby_names is ${synchronousStandbyNames}, and no such standby is connected`,
      raise: "connect the standbys that it names",
    };
  }
  return {
    survives: "yes",
    because: `synchronous_commit ${synchronousCommit} waits for ${synchronousStandbyNames}; except for a commit that was cancelled, or interrupted by a crash of the primary, while it waited; and only if a failover promotes a synchronous standby`,
  };
}
