/** `nevertwice pipeline coverage`: what recorded runs of a network exercised, and what they did not. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createInterface } from "node:readline";
import { type CoverageFact, type CoverageGroup, type Definition, measureCoverage } from "nevertwice/pipeline";
import {
  type CommandCall,
  type CommandResult,
  EXIT,
  type Flags,
  JSON_FLAG,
  Refused,
  UsageError,
  wholeNumber,
} from "../command.ts";

const COVERAGE_FILE = "pipeline-coverage.jsonl";

/** More lines than these belong to another kind of file. */
const MAX_LINES = 1_000_000;

export const COVERAGE_FLAGS: Flags = {
  recorded: {
    value: "FILE",
    what: `what runs have recorded; may be given several times (${COVERAGE_FILE} if not given)`,
    many: true,
  },
  "at-least": { value: "PERCENT", what: "fail below this share of everything that can be covered" },
  ...JSON_FLAG,
};

export async function coverPipeline(definition: Definition, call: CommandCall): Promise<CommandResult> {
  const least = wholeNumber(call, "at-least", 0) ?? 0;
  if (least > 100) throw new UsageError("--at-least must be a whole number from 0 to 100.");
  const files = [call.given("recorded") ?? COVERAGE_FILE].flat();
  const facts = (await Promise.all(files.map(readFacts))).flat();
  const { id } = definition.model;
  if (!facts.some(({ network }) => network === id))
    throw new Refused("not-found", `${files.join(", ")} has no run of the network ${id}.`);
  const groups = measureCoverage(definition.model, facts);
  const total = sum(groups.map((group) => group.total));
  const covered = sum(groups.map((group) => group.covered));
  const percent = total === 0 ? 100 : Math.floor((covered * 100) / total);
  const isEnough = percent >= least;
  return {
    exit: isEnough ? EXIT.ok : EXIT.failed,
    data: { network: id, groups, total, covered, percent, atLeast: least },
    lines: [
      ...groups.map(groupText),
      `${id}: ${covered} of ${total} covered, ${percent} %${isEnough ? "" : `, below --at-least ${least}`}`,
    ],
  };
}

function groupText({ name, covered, total, missing }: CoverageGroup): string {
  const line = `${name.padEnd(10)} ${covered} of ${total}`;
  return missing.length === 0 ? line : `${line}, not covered: ${missing.join(", ")}`;
}

async function readFacts(file: string): Promise<readonly CoverageFact[]> {
  if (!(await isFile(file)))
    throw new Refused(
      "not-found",
      `there is no file ${file}; record one with pipeline run --record ${file}, or with recordCoverage in your tests.`,
    );
  const facts: CoverageFact[] = [];
  const input = createReadStream(file, "utf8");
  let number = 0;
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    number++;
    if (number > MAX_LINES) throw new Refused("file-invalid", `${file} has more than ${MAX_LINES} lines.`);
    if (line.trim() !== "") facts.push(parseFact(line, `${file}:${number}`));
  }
  return facts;
}

function isFile(file: string): Promise<boolean> {
  return stat(file).then(
    (found) => found.isFile(),
    () => false,
  );
}

function parseFact(line: string, place: string): CoverageFact {
  let fact: Partial<CoverageFact> | null;
  try {
    fact = JSON.parse(line);
  } catch {
    fact = null;
  }
  if (typeof fact?.network === "string" && typeof fact.fact === "string") return fact as CoverageFact;
  throw new Refused(
    "file-invalid",
    `${place}: this is not a line that pipeline run --record or recordCoverage wrote.`,
  );
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
