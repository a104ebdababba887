/** The results as text: for the terminal, and as the page that is kept. Pure, like report.js, on which it stands. */
import { ours, peers } from "./contenders.js";
import { OUTCOME_BYTES, REQUEST_BYTES } from "./payload.js";
import { formatCount, formatRatio, formatSummary, formatTable, RATIO_MEANT } from "./report.js";

/** @typedef {Awaited<ReturnType<typeof import("./rounds.js").compare>>} Results */

/** @param {Results} results */
export function resultsText({ rows, bytesPerKey }) {
  const names = [ours, ...peers].map(({ packages }) => packages[0] ?? "");
  const table = formatTable(
    ["operations per second", ...names, "ratio"],
    rows.map((row) => [
      row.title,
      formatSummary(row.ours),
      ...row.peers.map(formatSummary),
      formatRatio(row.ratio),
    ]),
  );
  const bytes = names.map((name, i) => `${name} ${formatCount(bytesPerKey[i] ?? 0)}`).join(", ");
  return `${table}\n\nBytes of memory for each kept key, its outcome included: ${bytes}.`;
}

/**
 * What our time goes into, for each row that is not as fast as meant. Empty if all are.
 *
 * @param {Results} results
 */
export function hotSpotsText({ rows }) {
  return rows
    .flatMap(({ title, ours: { median }, ratio, hotSpots }) => {
      if (hotSpots === undefined) return [];
      const microseconds = 1_000_000 / median;
      const table = formatTable(
        ["self time", "share", "µs"],
        hotSpots.map(({ place, share }) => [
          place,
          `${(share * 100).toFixed(1)} %`,
          (share * microseconds).toFixed(2),
        ]),
      );
      return [
        `**${title}**: ${formatRatio(ratio)} where ${formatRatio(RATIO_MEANT)} is meant; ${microseconds.toFixed(1)} µs an operation.\n\n${table}`,
      ];
    })
    .join("\n\n");
}

/**
 * The page that is kept.
 *
 * @param {Results} results
 * @param {{ size: import("./rounds.js").Size, versionOf: (name: string) => string, platform: string }} measurement
 */
export function page(results, { size, versionOf, platform }) {
  const hotSpots = hotSpotsText(results);
  const paragraphs = [
    "# On the memory store",
    `Written by \`npm run bench\`; do not edit. Operations per second, more is better: the median of ${size.runs} runs and, in brackets, their spread. The ratio is ours to the better peer.`,
    resultsText(results),
    "## How it was measured",
    `${platform}. ${size.inFlight} operations in flight, ${REQUEST_BYTES} bytes of request, ${formatCount(OUTCOME_BYTES)} bytes of outcome; ${formatCount(size.keys)} first calls and ${formatCount(size.keys * size.laps)} replays a run, after a warm-up of ${formatCount(size.warmup)} keys. Every run is a process of its own, and the contenders take turns. The work itself costs nothing, so this is what the guard adds. A replay is asked for with objects of its own, as a retry is.`,
    `Every run checks that the work ran once for each key, that each answer was the right one, that a key reused for another request was refused (with fingerprint), and that ${size.inFlight} concurrent callers of one key ran the work once. A contender that fails fails the benchmark.`,
    "The contenders do not promise the same. Ours alone renews its lease while the work runs, gives each claim a fence, tells a late writer that it lost, bounds every call to the store in time, and hands the first caller what a replay would give.",
    [ours, ...peers].map((contender) => settingsText(contender, versionOf)).join("\n"),
  ];
  if (hotSpots !== "") paragraphs.push("## What our time goes into", hotSpots);
  return `${paragraphs.join("\n\n")}\n`;
}

/**
 * @param {import("./contenders.js").Contender} contender
 * @param {(name: string) => string} versionOf
 */
function settingsText({ packages, store, withFingerprint, withoutFingerprint }, versionOf) {
  const versions = packages.map((name) => `${name} ${versionOf(name)}`).join(", ");
  return `- **${versions}**: ${store}. With fingerprint: ${withFingerprint}. Without: ${withoutFingerprint}.`;
}
