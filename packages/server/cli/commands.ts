/** Every command, by its name. */
import { accessCommand } from "./access.ts";
import { auditCommand } from "./audit.ts";
import { checkStoreCommand } from "./check-store.ts";
import type { CommandMap } from "./command.ts";
import { completionCommand } from "./completion.ts";
import { demoCommand } from "./demo.ts";
import { doctorCommand } from "./doctor.ts";
import { holdsCommand } from "./holds.ts";
import { importCommand } from "./import.ts";
import { keysCommand } from "./keys.ts";
import { migrateCommand } from "./migrate.ts";
import { outboxCommand } from "./outbox.ts";
import { pipelineCommand } from "./pipeline.ts";
import { planCommand } from "./plan.ts";
import { proveCommand } from "./prove.ts";
import { purgeCommand } from "./purge.ts";
import { regionsCommand } from "./regions.ts";
import { serveCommand } from "./serve.ts";

export const COMMANDS: CommandMap = {
  serve: serveCommand,
  demo: demoCommand,
  access: accessCommand,
  keys: keysCommand,
  holds: holdsCommand,
  outbox: outboxCommand,
  audit: auditCommand,
  doctor: doctorCommand,
  "check-store": checkStoreCommand,
  prove: proveCommand,
  migrate: migrateCommand,
  purge: purgeCommand,
  plan: planCommand,
  import: importCommand,
  pipeline: pipelineCommand,
  regions: regionsCommand,
  completion: completionCommand(() => COMMANDS),
};
