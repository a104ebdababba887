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
 * @param {readonly (readonly Row[])[]} all in the order of the tables
 * @param {import("../page.js").Measurement} measurement
 */
export function transactionPage(all, { versionOf, platform }) {
  const settings = transaction.libraries.map((library) => formatSettings(library, versionOf));
  const sections = transaction.tables.map(({ title, durability, size }, index) => {
    const { runs, keys, warmup, connections } = size;
    return `## ${title}

${transactionsText(all[index] ?? [])}

Pools of ${connections}, ${durability}. ${formatCount(keys)} keys a run, each called twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs.`;
  });
  return `# ${transaction.title}

Written by \`npm run bench -- transaction\`; do not edit. Transactions per second in one process that each insert one row, more is better: the median of
the runs and, in brackets, their spread. A ratio is \`guard.transaction\` to the other column.

${sections.join("\n\n")}

## How it was measured

${platform}, with Postgres on the same computer. Every run is its own process, and the three take turns. Every run checks that each key was written once, or twice without keys, and that every call returned its value. A failed check fails the benchmark.

${settings.join("\n")}
`;
}
