/** `nevertwice check-store`: the published cases, asked of a live store. */
import { openStore } from "nevertwice/stores/open";
import { GUARANTEES, type StoreCase, storeCases } from "nevertwice/testing";
import { withoutPassword } from "../src/config.ts";
import { type Command, complain, EXIT, JSON_FLAG, print } from "./command.ts";
import { paint, progressBar } from "./terminal.ts";

/** The cases wait for the store's clock most of the time. */
const AT_ONCE = 16;

interface Verdict {
  readonly name: string;
  readonly guarantee: StoreCase["guarantee"];
  readonly status: "kept" | "broken" | "skipped";
  readonly reason?: string;
}

export const checkStoreCommand: Command = {
  summary: "holds a live store to every guarantee, case by case",
  actions: {
    "": {
      summary:
        "Runs the published cases against a live store and prints what it keeps, guarantee by guarantee.",
      takes: ["URL"],
      flags: JSON_FLAG,
      notes: [
        'Its keys are random and in the namespace "nevertwice-cases": nobody\'s records are touched. They end by themselves',
        "within an hour or so. Tables are made if there are none.",
      ],
      async run(call) {
        const [url = ""] = call.args;
        const isJson = call.has("json");
        const store = await openStore(url);
        try {
          // The first call says whether anybody is there, before every case does.
          await store.read("0".repeat(64));
          const cases = storeCases(() => ({ store, dispose: () => {} }));
          const bar = progressBar(cases.length);
          const verdicts = await judged(cases, (verdict) =>
            bar.step(`${verdict.guarantee}: ${verdict.name}`),
          );
          bar.end();
          const broken = verdicts.filter(({ status }) => status === "broken");
          if (isJson)
            print(
              JSON.stringify({ store: withoutPassword(url), kept: broken.length === 0, cases: verdicts }),
            );
          else report(withoutPassword(url), verdicts);
          return broken.length === 0 ? EXIT.ok : EXIT.failed;
        } finally {
          await store.close();
        }
      },
    },
  },
};

/** So many at once, in their order. */
async function judged(
  cases: readonly StoreCase[],
  onJudged: (verdict: Verdict) => void,
): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  const waiting = [...cases.entries()];
  async function work(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, asked] = next;
      const verdict = await judge(asked);
      verdicts[index] = verdict;
      onJudged(verdict);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return verdicts;
}

async function judge({ name, guarantee, run }: StoreCase): Promise<Verdict> {
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

function report(store: string, verdicts: readonly Verdict[]): void {
  const width = Math.max(...GUARANTEES.map((guarantee) => guarantee.length));
  print(paint("bold", store));
  for (const guarantee of GUARANTEES) {
    const own = verdicts.filter((verdict) => verdict.guarantee === guarantee);
    const count = (status: Verdict["status"]) => own.filter((verdict) => verdict.status === status).length;
    const [kept, broken, skipped] = [count("kept"), count("broken"), count("skipped")];
    const mark =
      broken > 0 ? paint("red", "broken") : kept > 0 ? paint("green", "kept  ") : paint("yellow", "skipped");
    const parts = [`${kept} kept`, broken > 0 && `${broken} broken`, skipped > 0 && `${skipped} skipped`];
    print(`  ${guarantee.padEnd(width)}  ${mark}  ${parts.filter(Boolean).join(", ")}`);
  }
  for (const reason of new Set(
    verdicts.flatMap(({ status, reason }) => (status === "skipped" ? [reason] : [])),
  ))
    print(paint("dim", `  skipped: ${reason}`));
  const broken = verdicts.filter(({ status }) => status === "broken");
  for (const { reason } of broken) complain(`\n${reason}`);
  const all = `${verdicts.length} cases`;
  print(
    broken.length === 0
      ? paint("green", `${all}: every promise is kept`)
      : paint("red", `${all}: ${broken.length} broken`),
  );
}
