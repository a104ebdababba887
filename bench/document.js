/** The results of the stores as text: for the terminal, and as the page in bench/results. */

import { OUTCOME_BYTES, REQUEST_BYTES } from "./payload.js";
import { formatCount, formatRatio, formatSummary, formatTable } from "./report.js";
import { librariesOf, RAW_RATIO_MEANT } from "./suites.js";

/** @typedef {import("./suites.js").Suite} Suite */
/** @typedef {import("./rounds.js").Results} Results */

/**
 * @param {Suite} suite
 * @param {Results} results
 */
export function resultsText(suite, { rows, bytesPerKey }) {
  const names = librariesOf(suite).map(({ name }) => name);
  const hasRaw = suite.raw !== undefined;
  const table = formatTable(
    ["operations per second", ...names, ...(hasRaw ? ["to best peer", "to raw loop"] : ["ratio"])],
    rows.map((row) => [
      row.title,
      formatSummary(row.ours),
      ...[...row.peers, ...(hasRaw ? [row.raw] : [])].map((each) =>
        each ? formatSummary(each) : "not asked",
      ),
      formatRatio(row.ratio),
      ...(row.rawRatio === undefined ? [] : [formatRatio(row.rawRatio)]),
    ]),
  );
  const bytes = names.map((name, i) => `${name} ${formatCount(bytesPerKey[i] ?? 0)}`).join(", ");
  return `${table}\n\n${suite.bytes} for each kept key, its outcome included: ${bytes}.`;
}

/**
 * The functions that take our time, for each row below the ratio that we aim for. Empty if there is none.
 *
 * @param {Suite} suite
 * @param {Results} results
 */
export function hotSpotsText(suite, { rows }) {
  return rows
    .flatMap(({ title, ours: { median }, ratio, rawRatio, explanations }) => {
      if (explanations === undefined) return [];
      const microseconds = 1_000_000 / median;
      const ratios = [
        `${formatRatio(ratio)} of the best peer where ${formatRatio(suite.ratioMeant)} is meant`,
        ...(rawRatio === undefined
          ? []
          : [`${formatRatio(rawRatio)} of the raw loop where ${formatRatio(RAW_RATIO_MEANT)} is meant`]),
      ].join(", ");
      const threads = explanations.map((each, i) => threadText(i, each, microseconds));
      return [`**${title}**: ${ratios}; ${microseconds.toFixed(1)} µs an operation.`, ...threads];
    })
    .join("\n\n");
}

/**
 * The functions that take the time of one thread.
 *
 * @param {number} index 0 for the main thread
 * @param {import("./rounds.js").Explanation} explanation
 * @param {number} microseconds that one operation takes
 */
export function threadText(index, { waiting, hotSpots }, microseconds) {
  const busy = microseconds * (1 - waiting);
  const table = formatTable(
    ["self time", "share", "µs"],
    hotSpots.map(({ place, share }) => [place, percent(share), (share * busy).toFixed(2)]),
  );
  const thread = index === 0 ? "The main thread" : "The worker thread";
  return `${thread} waits for ${percent(waiting)} of the time, and does in the rest:\n\n${table}`;
}

/**
 * The page in bench/results.
 *
 * @param {Suite} suite
 * @param {readonly Results[]} all by table
 * @param {{ versionOf: (name: string) => string, platform: string }} measurement
 */
export function page(suite, all, { versionOf, platform }) {
  const paragraphs = [
    `# ${suite.title}`,
    "Written by `npm run bench`; do not edit. Operations per second, more is better: the median of the runs and, in brackets, their spread. The ratio is ours to the best peer.",
  ];
  if (suite.raw !== undefined)
    paragraphs.push(
      `Meant are ${formatRatio(suite.ratioMeant)} of the best peer and ${formatRatio(RAW_RATIO_MEANT)} of the raw loop, which sends our statements by hand: what the store could do if we cost nothing.`,
    );
  for (const [i, results] of all.entries())
    paragraphs.push(`## ${suite.tables[i]?.durability}`, resultsText(suite, results));
  paragraphs.push("## How it was measured", ...methodTexts(suite, { versionOf, platform }));
  const hotSpots = all.flatMap((results, i) => {
    const text = hotSpotsText(suite, results);
    return text === "" ? [] : [`### ${suite.tables[i]?.durability}`, text];
  });
  if (hotSpots.length > 0) {
    paragraphs.push("## What our time goes into");
    if (suite.profileNote !== undefined) paragraphs.push(suite.profileNote);
    paragraphs.push(...hotSpots);
  }
  return `${paragraphs.join("\n\n")}\n`;
}

/**
 * @param {Suite} suite
 * @param {{ versionOf: (name: string) => string, platform: string }} measurement
 */
function methodTexts(suite, { versionOf, platform }) {
  const { size } = suite.tables[0] ?? { size: undefined };
  if (size === undefined) throw new Error(`nothing is asked on ${suite.name}`);
  const where =
    suite.server === undefined ? "" : " The server runs on the same computer and is emptied before each run.";
  return [
    `${platform}. ${size.inFlight} operations in flight, ${REQUEST_BYTES} bytes of request, ${formatCount(OUTCOME_BYTES)} bytes of outcome; ${formatCount(size.keys)} first calls and ${formatCount(size.keys * size.laps)} replays a run, after a warm-up of ${formatCount(size.warmup)} keys; ${size.runs} runs.${where} Every run is its own process, and the libraries take turns. The work itself costs nothing, so this is what the guard adds. A replay is asked for with objects of its own, as a retry is.`,
    `Every run checks that the work ran once for each key, that each answer was the right one, that a key reused for another request was refused (with fingerprint), and that ${size.inFlight} concurrent callers of one key ran the work once. A library that fails a check fails the benchmark.`,
    "The peers do not promise the same. Ours alone renews its lease while the work runs, gives each claim a fence, tells a late writer that it lost, bounds every call to the store in time, and hands the first caller what a replay would give.",
    librariesOf(suite)
      .map((library) => settingsText(library, versionOf))
      .join("\n"),
  ];
}

/**
 * @param {import("./suites.js").Library} library
 * @param {(name: string) => string} versionOf
 */
function settingsText({ name, packages, store, withFingerprint, withoutFingerprint }, versionOf) {
  const versions = packages.map((each) => `${each} ${versionOf(each)}`).join(", ");
  const heading = packages.includes(name) ? versions : `${name}, ${versions}`;
  const fingerprint = withFingerprint === undefined ? "" : ` With fingerprint: ${withFingerprint}.`;
  return `- **${heading}**: ${store}.${fingerprint} Without: ${withoutFingerprint}.`;
}

/** @param {number} share */
function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
