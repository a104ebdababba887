/** `nevertwice doctor`: which faults an acknowledged claim survives on a store, by its live settings. */
import { diagnose } from "nevertwice/doctor";
import { openStore } from "nevertwice/stores/open";
import { type Command, EXIT, JSON_FLAG, print, UsageError } from "./command.ts";
import { paint } from "./terminal.ts";

const FAULTS: readonly string[] = ["our-crash", "store-crash", "power-loss", "failover"];

export const doctorCommand: Command = {
  summary: "reads a store's settings and says what its claims survive",
  actions: {
    "": {
      summary:
        "Says which faults an acknowledged claim survives on this store, and what would make it survive more.",
      takes: ["URL"],
      flags: {
        require: {
          value: FAULTS.join("|"),
          what: "ends with code 1 unless a claim survives this and all before it",
        },
        ...JSON_FLAG,
      },
      async run(call) {
        const wanted = call.text("require");
        const least = FAULTS.indexOf(wanted ?? "");
        if (wanted !== undefined && least === -1)
          throw new UsageError(`--require is ${FAULTS.slice(0, -1).join(", ")} or ${FAULTS.at(-1)}.`);
        const [url = ""] = call.args;
        const store = await openStore(url, { migrate: false });
        try {
          const diagnosis = await diagnose(store);
          const { toString: _, rung = null, ...data } = diagnosis;
          if (call.has("json")) print(JSON.stringify({ rung, ...data }));
          else print(coloured(diagnosis.toString()));
          const reached = FAULTS.indexOf(rung ?? "");
          return diagnosis.refused === undefined && reached >= least ? EXIT.ok : EXIT.failed;
        } finally {
          await store.close();
        }
      },
    },
  },
};

function coloured(text: string): string {
  return text
    .replace(/^( {2}\S+ +)(yes|no|unknown)\b/gm, (_, before: string, word: string) => {
      const style = word === "yes" ? "green" : word === "no" ? "red" : "yellow";
      return `${before}${paint(style, word)}`;
    })
    .replace(/^ {2}refused:/gm, (word) => paint("red", word));
}
