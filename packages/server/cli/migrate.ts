/** `nevertwice migrate`: creates or upgrades the tables of a store before a server needs them. */
import { openOutbox } from "nevertwice/outbox/open";
import { openReservations } from "nevertwice/reservations/open";
import { openStore } from "nevertwice/stores/open";
import { withoutPassword } from "../src/config.ts";
import { type Command, JSON_FLAG, UsageError } from "./command.ts";
import { paint } from "./terminal.ts";

const SQL = /^(sqlite|postgres|postgresql|mysql):/;

export const migrateCommand: Command = {
  summary: "create or upgrade the tables of a database",
  actions: {
    "": {
      summary:
        "Creates or upgrades the tables for claims, holds and the outbox. Running it again, or while servers run, is safe.",
      takes: ["URL"],
      flags: {
        "claims-only": { what: "create no tables for holds and the outbox" },
        ...JSON_FLAG,
      },
      async run(call) {
        const [url = ""] = call.args;
        const shown = withoutPassword(url);
        if (!SQL.test(url))
          throw new UsageError(
            `${JSON.stringify(shown)} has no tables: use a sqlite:, postgres:// or mysql:// URL.`,
          );
        const opened = [await openStore(url)];
        // The SQLite file is created by the first call.
        await opened[0]?.read("0".repeat(64));
        if (!call.has("claims-only")) {
          const holds = await openReservations(url);
          await holds.migrate?.();
          await holds.close();
          const outbox = await openOutbox(url);
          await outbox.migrate();
          await outbox.close();
        }
        await Promise.all(opened.map((store) => store.close()));
        const tables = call.has("claims-only") ? ["claims"] : ["claims", "holds", "outbox"];
        return {
          data: { store: shown, tables },
          lines: [`${paint("green", "ready")} ${shown}: tables for ${tables.join(", ")}`],
        };
      },
    },
  },
};
