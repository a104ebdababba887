/** `nevertwice doctor`: reads the live settings of a store and prints which faults an acknowledged claim survives. */
import { diagnose } from "nevertwice/doctor";
import { openStore } from "nevertwice/stores/open";
import { type Command, EXIT, JSON_FLAG, print, UsageError } from "./command.ts";
import { paint } from "./terminal.ts";

const FAULTS: readonly string[] = ["our-crash", "store-crash", "power-loss", "failover"];

export const doctorCommand: Command = {
  summary: "read the settings of a store and print which faults its claims survive",
  actions: {
    "": {
      summary: "Prints which faults an acknowledged claim survives on this store, and how to survive more.",
      takes: ["URL"],
      flags: {
        require: {
          value: FAULTS.join("|"),
          what: "exit code 1 unless a claim survives this fault and all milder ones",
        },
        ...JSON_FLAG,
      },
      async run(call) {
        const wanted = call.text("require");
        const least = FAULTS.indexOf(wanted ?? "");
        if (wanted !== undefined && least === -1)
          throw new UsageError(`--require must be ${FAULTS.slice(0, -1).join(", ")} or ${FAULTS.at(-1)}.`);
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
