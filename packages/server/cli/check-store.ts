/** `nevertwice check-store`: runs the published cases against a live store. */
import { openStore } from "nevertwice/stores/open";
import { GUARANTEES, type StoreCase, storeCases } from "nevertwice/testing";
import { withoutPassword } from "../src/config.ts";
import { type Command, EXIT, JSON_FLAG } from "./command.ts";
import { paint, progressBar } from "./terminal.ts";

/** Cases mostly wait for the store's clock, so many can run at once. */
const AT_ONCE = 16;

interface CaseResult {
  readonly name: string;
  readonly guarantee: StoreCase["guarantee"];
  readonly status: "kept" | "broken" | "skipped";
  readonly reason?: string;
}

export const checkStoreCommand: Command = {
  summary: "check that a live store keeps every guarantee",
  actions: {
    "": {
      summary: "Runs the published cases against a live store and prints the result for each guarantee.",
      takes: ["URL"],
      flags: JSON_FLAG,
      notes: [
        'It uses random keys in the namespace "nevertwice-cases" and changes no other records. Its records expire within',
        "about an hour. It creates the tables if they do not exist.",
      ],
      showsProgress: true,
      async run(call) {
        const [url = ""] = call.args;
        const store = await openStore(url);
        try {
          // Fails early, and only once, if the store does not answer.
          await store.read("0".repeat(64));
          const cases = storeCases(() => ({ store, dispose: () => {} }));
          const bar = progressBar(cases.length);
          const results = await runCases(cases, (result) => bar.step(`${result.guarantee}: ${result.name}`));
          bar.end();
          const broken = results.filter(({ status }) => status === "broken");
          const shown = withoutPassword(url);
          return {
            exit: broken.length === 0 ? EXIT.ok : EXIT.failed,
            data: { store: shown, kept: broken.length === 0, cases: results },
            lines: reportLines(shown, results),
            remarks: broken.map(({ reason }) => `\n${reason}`),
          };
        } finally {
          await store.close();
        }
      },
    },
  },
};

/** Runs `AT_ONCE` cases in parallel and returns the results in the order of the cases. */
async function runCases(
  cases: readonly StoreCase[],
  onResult: (result: CaseResult) => void,
): Promise<readonly CaseResult[]> {
  const results: CaseResult[] = [];
  const waiting = [...cases.entries()];
  async function work(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, asked] = next;
      const result = await runCase(asked);
      results[index] = result;
      onResult(result);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

async function runCase({ name, guarantee, run }: StoreCase): Promise<CaseResult> {
  try {
    const answer = await run();
    return answer === undefined || answer === null
      ? { name, guarantee, status: "kept" }
      : { name, guarantee, status: "skipped", reason: answer.skipped };
  } catch (error) {
    return {
      name,
      guarantee,
      status: "broken",
      reason: error instanceof Error ? error.message : String(error),
    };
  }
}

function reportLines(store: string, results: readonly CaseResult[]): readonly string[] {
  const skipped = results.flatMap(({ status, reason }) => (status === "skipped" ? [reason] : []));
  const broken = results.filter(({ status }) => status === "broken").length;
  const all = `${results.length} cases`;
  return [
    paint("bold", store),
    ...GUARANTEES.map((guarantee) => guaranteeLine(guarantee, results)),
    ...[...new Set(skipped)].map((reason) => paint("dim", `  skipped: ${reason}`)),
    broken === 0
      ? paint("green", `${all}: every guarantee is kept`)
      : paint("red", `${all}: ${broken} broken`),
  ];
}

const WIDTH = Math.max(...GUARANTEES.map((guarantee) => guarantee.length));

function guaranteeLine(guarantee: StoreCase["guarantee"], results: readonly CaseResult[]): string {
  const own = results.filter((result) => result.guarantee === guarantee);
  const count = (status: CaseResult["status"]) => own.filter((result) => result.status === status).length;
  const [kept, broken, skipped] = [count("kept"), count("broken"), count("skipped")];
  const mark =
    broken > 0 ? paint("red", "broken") : kept > 0 ? paint("green", "kept  ") : paint("yellow", "skipped");
  const parts = [`${kept} kept`, broken > 0 && `${broken} broken`, skipped > 0 && `${skipped} skipped`];
  return `  ${guarantee.padEnd(WIDTH)}  ${mark}  ${parts.filter(Boolean).join(", ")}`;
}
