/** Which faults an acknowledged claim survives, by the server's settings. Pure: it is told them. */
import type { Finding, StoreSettings } from "../../core/settings.ts";
import type { Row } from "./client.ts";

/** As `SHOW` says them in the session that was asked. */
export interface PostgresSettings {
  readonly version: string;
  readonly fsync: string;
  readonly fullPageWrites: string;
  readonly synchronousCommit: string;
  readonly synchronousStandbyNames: string;
  /** The table is UNLOGGED. */
  readonly isUnlogged: boolean;
  /** Standbys that take part in a synchronous commit; undefined if the role may not see them. */
  readonly synchronousStandbys: number | undefined;
}

/** From rows of (name, value). */
export function settingsOf(rows: readonly Row[]): PostgresSettings {
  const values = new Map(rows.map(([name, value]) => [name, value]));
  const text = (name: string) => values.get(name) ?? "";
  const standbys = values.get("standbys");
  return {
    version: text("server_version"),
    fsync: text("fsync"),
    fullPageWrites: text("full_page_writes"),
    synchronousCommit: text("synchronous_commit"),
    synchronousStandbyNames: text("synchronous_standby_names"),
    isUnlogged: text("relpersistence") === "u",
    synchronousStandbys: typeof standbys === "string" ? Number(standbys) : undefined,
  };
}

export function judgeSettings(settings: PostgresSettings, table = "nevertwice_records"): StoreSettings {
  const { version, fsync, synchronousCommit, synchronousStandbyNames } = settings;
  const storeCrash = judgeStoreCrash(settings, table);
  const powerLoss = judgePowerLoss(settings, storeCrash);
  return {
    title: `Postgres ${version}, synchronous_commit ${synchronousCommit}, fsync ${fsync}, ${
      synchronousStandbyNames === "" ? "no synchronous standby" : `standbys ${synchronousStandbyNames}`
    }`,
    survives: {
      "our-crash": { survives: "yes", because: "the records are in the server, not in our process" },
      "store-crash": storeCrash,
      "power-loss": powerLoss,
      failover: judgeFailover(settings, powerLoss),
    },
    notes: [
      "synchronous_commit is as the session that was asked sees it; a role or a database may have its own",
      "across a failover or a restored backup a fence is as good as the server's clock",
    ],
  };
}

function judgeStoreCrash({ isUnlogged, synchronousCommit }: PostgresSettings, table: string): Finding {
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
        "synchronous_commit off: commits of the last three wal_writer_delay are lost when the server is killed",
      raise: "synchronous_commit = on",
    };
  }
  return {
    survives: "yes",
    because: `synchronous_commit ${synchronousCommit}: a commit is in the log before it is told`,
  };
}

function judgePowerLoss(
  { fsync, fullPageWrites, synchronousCommit }: PostgresSettings,
  before: Finding,
): Finding {
  if (before.survives !== "yes") return before;
  if (fsync !== "on")
    return {
      survives: "no",
      because: `fsync ${fsync}: the log is never forced to disk`,
      raise: "fsync = on",
    };
  if (fullPageWrites !== "on") {
    return {
      survives: "no",
      because: `full_page_writes ${fullPageWrites}: a page that is half written cannot be put right`,
      raise: "full_page_writes = on, unless the file system never tears a page",
    };
  }
  return {
    survives: "yes",
    because: `fsync on, synchronous_commit ${synchronousCommit}, full_page_writes on`,
  };
}

const RAISE_FAILOVER =
  "synchronous_standby_names = 'ANY 1 (…)' with synchronous_commit = on, and a failover that promotes only a standby that was synchronous";

function judgeFailover(settings: PostgresSettings, before: Finding): Finding {
  const { synchronousCommit, synchronousStandbyNames, synchronousStandbys } = settings;
  if (before.survives !== "yes") return before;
  if (synchronousStandbyNames === "") {
    return {
      survives: "no",
      because: "synchronous_standby_names is empty: a standby may be behind when it is promoted",
      raise: RAISE_FAILOVER,
    };
  }
  if (synchronousCommit !== "on" && synchronousCommit !== "remote_apply") {
    return {
      survives: "no",
      because: `synchronous_commit ${synchronousCommit}: a commit is told before a standby has it on disk`,
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
    because: `synchronous_commit ${synchronousCommit} waits for ${synchronousStandbyNames}; except a commit that was cancelled while it waited, and only if a failover promotes none but a synchronous standby`,
  };
}
