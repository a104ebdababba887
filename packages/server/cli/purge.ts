/** `nevertwice purge`: removes expired records now, for cron jobs and for functions whose timers end with their call. */
import { setTimeout } from "node:timers/promises";
import { durationMs } from "nevertwice/env";
import { openStore } from "nevertwice/stores/open";
import { withoutPassword } from "../src/config.ts";
import { type Command, JSON_FLAG } from "./command.ts";
import { requireExistingFile } from "./existing-file.ts";
import { showStatus } from "./status-line.ts";
import { paint } from "./terminal.ts";

const BATCH = 500;
/** After each batch the command pauses for this many times as long as the batch took, so that claims have the store. */
const PAUSE_FACTOR = 4;

export const purgeCommand: Command = {
  summary: "remove expired records now, for cron jobs",
  actions: {
    "": {
      summary:
        "Removes the expired records of all namespaces in small batches, until none is left or the time is over.",
      takes: ["URL"],
      flags: {
        for: { value: "DURATION", what: "the longest time, such as 50s; the next purge continues" },
        ...JSON_FLAG,
      },
      showsProgress: true,
      async run(call) {
        const [url = ""] = call.args;
        const given = call.text("for");
        const longestMs = given === undefined ? Number.POSITIVE_INFINITY : durationMs("--for", given);
        requireExistingFile(url);
        const store = await openStore(url, { migrate: false });
        try {
          const { removed, isComplete } = await purgeAll(store, longestMs);
          const done = removedWords(removed);
          return {
            data: { store: withoutPassword(url), removed, complete: isComplete },
            lines: [
              isComplete
                ? `${paint("green", done)}; none is left`
                : `${paint("yellow", done)} in ${given}; more are left, run it again`,
            ],
          };
        } finally {
          await store.close();
        }
      },
    },
  },
};

function removedWords(removed: number): string {
  return `removed ${removed} expired ${removed === 1 ? "record" : "records"}`;
}

/** Always removes one batch, so that runs with a short time make progress too. */
async function purgeAll(
  store: Pick<Awaited<ReturnType<typeof openStore>>, "purge">,
  longestMs: number,
): Promise<{ readonly removed: number; readonly isComplete: boolean }> {
  const startedAt = performance.now();
  let removed = 0;
  for (;;) {
    const batchAt = performance.now();
    const report = await store.purge(BATCH);
    removed += report.removed;
    if (!report.more) return { removed, isComplete: true };
    const pauseMs = PAUSE_FACTOR * (performance.now() - batchAt);
    if (performance.now() + pauseMs - startedAt >= longestMs) return { removed, isComplete: false };
    showStatus(removedWords(removed));
    await setTimeout(pauseMs);
  }
}
