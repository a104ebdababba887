/** `nevertwice doctor`: reads the live settings of a store and prints which faults an acknowledged claim survives. */
import { diagnose } from "nevertwice/doctor";
import { openStore } from "nevertwice/stores/open";
import { type Command, EXIT, JSON_FLAG } from "./command.ts";
import { requireExistingFile } from "./existing-file.ts";
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
        const [url = ""] = call.args;
        requireExistingFile(url);
        const store = await openStore(url, { migrate: false });
        try {
          const diagnosis = await diagnose(store);
          const { toString: _, rung = null, ...rest } = diagnosis;
          const verdict = judge({ refused: diagnosis.refused, rung, wanted });
          return {
            exit: verdict.isPassed ? EXIT.ok : EXIT.failed,
            data: { rung, ...rest, required: wanted ?? null, passed: verdict.isPassed },
            lines: [coloured(diagnosis.toString()), paint(verdict.isPassed ? "green" : "red", verdict.text)],
          };
        } finally {
          await store.close();
        }
      },
    },
  },
};

interface Judged {
  readonly refused: unknown;
  /** The hardest fault that a claim survives. */
  readonly rung: string | null;
  readonly wanted: string | undefined;
}

function judge({ refused, rung, wanted }: Judged): { readonly isPassed: boolean; readonly text: string } {
  if (refused !== undefined) return { isPassed: false, text: "not passed: guards refuse this store" };
  const survived = rung === null ? "no fault" : rung === FAULTS[0] ? rung : `${rung} and all milder faults`;
  if (wanted === undefined) return { isPassed: true, text: `a claim survives ${survived}` };
  const isPassed = FAULTS.indexOf(rung ?? "") >= FAULTS.indexOf(wanted);
  return {
    isPassed,
    text: `${isPassed ? "passed" : "not passed"}: ${wanted} is required, and a claim survives ${survived}`,
  };
}

function coloured(text: string): string {
  return text
    .replace(/^( {2}\S+ +)(yes|no|unknown)\b/gm, (_, before: string, word: string) => {
      const style = word === "yes" ? "green" : word === "no" ? "red" : "yellow";
      return `${before}${paint(style, word)}`;
    })
    .replace(/^ {2}refused:/gm, (word) => paint("red", word));
}
