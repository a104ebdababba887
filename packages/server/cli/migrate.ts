/** `nevertwice migrate`: makes or upgrades the tables of a store, before any server needs them. */
import { openReservations } from "nevertwice/reservations/open";
import { openStore } from "nevertwice/stores/open";
import { withoutPassword } from "../src/config.ts";
import { type Command, EXIT, JSON_FLAG, print, UsageError } from "./command.ts";
import { paint } from "./terminal.ts";

const SQL = /^(sqlite|postgres|postgresql|mysql):/;

export const migrateCommand: Command = {
  summary: "makes or upgrades the tables of a database",
  actions: {
    "": {
      summary:
        "Makes or upgrades the tables for claims and holds. It may be run again, and while servers run.",
      takes: ["URL"],
      flags: {
        "claims-only": { what: "makes no tables for holds" },
        ...JSON_FLAG,
      },
      async run(call) {
        const [url = ""] = call.args;
        const shown = withoutPassword(url);
        if (!SQL.test(url))
          throw new UsageError(
            `${JSON.stringify(shown)} has no tables: give sqlite:, postgres:// or mysql://.`,
          );
        const opened = [await openStore(url)];
        // A file of SQLite is made by the first call.
        await opened[0]?.read("0".repeat(64));
        if (!call.has("claims-only")) {
          const holds = await openReservations(url);
          await holds.migrate?.();
          await holds.close();
        }
        await Promise.all(opened.map((store) => store.close()));
        const tables = call.has("claims-only") ? ["claims"] : ["claims", "holds"];
        if (call.has("json")) print(JSON.stringify({ store: shown, tables }));
        else print(`${paint("green", "ready")} ${shown}: tables for ${tables.join(" and ")}`);
        return EXIT.ok;
      },
    },
  },
};
