/** What loading costs as text: for the terminal, and as the page in bench/results. */
import { formatPage, formatTarget } from "../page.js";
import { formatCount, formatRatio, formatTable } from "../report.js";
import { loading } from "../suites/loading.js";

/** @param {readonly import("./rounds.js").LoadingRow[]} rows */
export function loadingText(rows) {
  return formatTable(
    ["import of", "ms", "least", "most", "bytes, minified", "with gzip"],
    rows.map(({ name, milliseconds: { median, least, most }, minified, compressed }) => [
      name,
      ...[median, least, most].map((ms) => ms.toFixed(1)),
      formatCount(minified),
      formatCount(compressed),
    ]),
  );
}

/** @param {readonly import("./rounds.js").LoadingRow[]} rows */
function targetText(rows) {
  const { comparedWith, ratioMeant } = loading;
  const timeOf = (/** @type {string} */ name) =>
    rows.find((row) => row.name === name)?.milliseconds.median ?? Number.NaN;
  const ratio = timeOf("nevertwice") / timeOf(comparedWith);
  const missed = ratio <= ratioMeant ? [] : ["nevertwice"];
  return `\`nevertwice\` takes ${formatRatio(ratio)} of the time of \`${comparedWith}\`. ${formatTarget(`at most ${formatRatio(ratioMeant)}`, missed)}`;
}

/**
 * @param {readonly (readonly import("./rounds.js").LoadingRow[])[]} all by table
 * @param {import("../page.js").Measurement} measurement
 */
export function loadingPage(all, { versionOf, platform }) {
  const [table] = loading.tables;
  const [rows = []] = all;
  if (table === undefined) throw new Error("nothing is loaded");
  const packages = [...new Set(table.entries.flatMap((entry) => entry.packages))];
  return formatPage({
    title: loading.title,
    intro: `Written by \`npm run bench -- ${loading.name}\`; do not edit. How long the first import takes, and how large a bundle of all that the module exports is. Less is better.`,
    sections: [{ heading: table.title, texts: [targetText(rows), loadingText(rows)], spots: "" }],
    method: [
      `${platform}. Each import is its own process, ${table.size.runs} times in turn; the median, the fastest and the slowest. The bundle is built by Vite for Node, minified, with all dependencies and without Node's own modules.`,
      `Versions: ${packages.map((name) => `${name} ${versionOf(name)}`).join(", ")}.`,
    ],
  });
}
