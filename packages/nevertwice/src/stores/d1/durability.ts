/** Which faults the records in D1 survive, by what Cloudflare documents (for the doctor). */
import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";

const DOCUMENTED: Finding = {
  survives: "yes",
  because:
    "as Cloudflare documents it, D1 answers a write after it is stored on several machines; nothing here can read or check that setting",
};

export const D1_SETTINGS: StoreSettings = {
  title: "Cloudflare D1",
  survives: {
    "our-crash": { survives: "yes", because: "the records are in D1, not in the Worker" },
    "store-crash": DOCUMENTED,
    "power-loss": DOCUMENTED,
    failover: DOCUMENTED,
  },
  notes: [
    "under wrangler dev and miniflare the database is a file on this machine: it survives a crash of the process, and no loss of the machine",
    restoreNote(
      "the clock of the database (a restore by Time Travel is one)",
      "none is needed: Time Travel is always on and restores to any minute up to the present",
    ),
    "all steps go to the primary; replicas are never read",
  ],
};
