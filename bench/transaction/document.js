/** The results of the transactions as text: for the terminal, and as the page in bench/results. */
import { formatSettings } from "../page.js";
import { formatCount, formatRatio, formatSummary, formatTable, ratioToBest } from "../report.js";
import { transaction } from "../suites/transaction.js";

/** @typedef {import("./rounds.js").Row} Row */

/** @param {readonly Row[]} rows */
export function transactionsText(rows) {
  const [ours, byHand, bare] = transaction.libraries.map(({ name }) => name);
  return formatTable(
    [
      "transactions per second",
      ...transaction.libraries.map(({ name }) => name),
      `to ${byHand}`,
      `to ${bare}`,
    ],
    rows.map(({ title, summaries }) => [
      title,
      ...summaries.map(formatSummary),
      ...summaries.slice(1).map((other) => formatRatio(ratioToBest(firstOf(summaries, ours), [other]))),
    ]),
  );
}

/**
 * @template T
 * @param {readonly T[]} all
 * @param {string | undefined} name
 */
function firstOf([first], name) {
  if (first === undefined) throw new Error(`${name} was not measured`);
  return first;
}

/**
 * @param {readonly (readonly Row[])[]} all
 * @param {import("../page.js").Measurement} measurement
 */
export function transactionPage([rows = []], { versionOf, platform }) {
  const [table] = transaction.tables;
  if (table === undefined) throw new Error("the suite has no table");
  const { runs, keys, warmup, inFlight } = table.size;
  const settings = transaction.libraries.map((library) => formatSettings(library, versionOf));
  return `# ${transaction.title}

Written by \`npm run bench -- transaction\`; do not edit. Transactions per second in one process that each insert one row, more is better: the median of
the runs and, in brackets, their spread. A ratio is \`guard.transaction\` to the other column.

${transactionsText(rows)}

## How it was measured

${platform}. Postgres on the same computer, ${table.durability}. ${inFlight} calls in flight; ${formatCount(keys)} keys a run, each called twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs. Every run is its own process, and the three take turns. Every run checks that each key was written once, or twice without keys, and that every call returned its value. A failed check fails the benchmark.

${settings.join("\n")}
`;
}
