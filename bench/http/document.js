/** The results of the HTTP layers as text: for the terminal, and as the page in bench/results. */

import { OUTCOME_BYTES, REQUEST_BYTES } from "../payload.js";
import { formatCount, formatRatio, formatSummary, formatTable } from "../report.js";
import { bare, http, layersOf } from "../suites/http.js";

/** @typedef {import("../suites/http.js").Table} Table */
/** @typedef {import("./rounds.js").Row} Row */

const PHASES = { first: "first call", replay: "replay" };

/** @param {readonly Row[]} rows */
export function layersText(rows) {
  return formatTable(
    ["", "requests per second", "of bare", "p50", "p99", "alone, p50", "alone, p99", "µs of processor"],
    rows.map(({ layer, phase, perSecond, ratio, added, processorMicroseconds }) => [
      layer === bare ? bare.name : `${layer.name}, ${PHASES[phase]}`,
      formatSummary(perSecond),
      formatRatio(ratio),
      ...[added.p50, added.p99, added.aloneP50, added.aloneP99].map((milliseconds) =>
        layer === bare ? milliseconds.toFixed(2) : signed(milliseconds),
      ),
      processorMicroseconds.toFixed(1),
    ]),
  );
}

/** @param {number} milliseconds */
function signed(milliseconds) {
  const text = milliseconds.toFixed(2);
  return milliseconds < 0 ? text : `+${text}`;
}

/**
 * The functions that take our time, for each of our rows below the ratio that we aim for. Empty if there is none.
 *
 * @param {Table} table
 * @param {readonly Row[]} rows
 */
export function layerSpotsText({ ratioMeant }, rows) {
  return rows
    .flatMap(({ phase, ratio, processorMicroseconds, explanation }) => {
      if (explanation === undefined) return [];
      const { waiting, hotSpots } = explanation;
      return [
        `**${PHASES[phase]}**: ${formatRatio(ratio)} of the bare application where ${formatRatio(ratioMeant)} and more than any peer is meant. The application's thread waits for ${percent(waiting)} of the time, and does in the rest:`,
        formatTable(
          ["self time", "share", "µs"],
          hotSpots.map(({ place, share }) => [
            place,
            percent(share),
            (share * processorMicroseconds).toFixed(2),
          ]),
        ),
      ];
    })
    .join("\n\n");
}

/** @param {number} share */
function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

/**
 * The page in bench/results.
 *
 * @param {readonly (readonly Row[])[]} all by table
 * @param {{ versionOf: (name: string) => string, platform: string }} measurement
 */
export function httpPage(all, { versionOf, platform }) {
  const paragraphs = [
    `# ${http.title}`,
    "Written by `npm run bench -- http`; do not edit. Requests per second, more is better: the median of the runs and, in brackets, their spread. `of bare` compares with the application that has nothing in front of its handler. The latencies are milliseconds: the bare application's whole, and what a layer adds to it, under load and for one caller alone.",
  ];
  for (const [i, rows] of all.entries())
    paragraphs.push(`## ${http.tables[i]?.title}`, barText(http.tables[i], rows), layersText(rows));
  paragraphs.push("## How it was measured", ...methodTexts({ versionOf, platform }));
  const spots = all.flatMap((rows, i) => {
    const table = http.tables[i];
    const text = table === undefined ? "" : layerSpotsText(table, rows);
    return text === "" ? [] : [`### ${table?.title}`, text];
  });
  if (spots.length > 0) paragraphs.push("## What our time goes into", ...spots);
  return `${paragraphs.join("\n\n")}\n`;
}

/**
 * @param {Table | undefined} table
 * @param {readonly Row[]} rows
 */
function barText(table, rows) {
  const missed = rows.filter(({ isAsFastAsMeant }) => !isAsFastAsMeant).map(({ phase }) => PHASES[phase]);
  const meant = `Meant is ${formatRatio(table?.ratioMeant ?? 0)} of bare${table?.peers.length === 0 ? "" : ", and more than any peer"}`;
  return missed.length === 0 ? `${meant}.` : `${meant}; not reached by: ${missed.join(", ")}.`;
}

/** @param {{ versionOf: (name: string) => string, platform: string }} measurement */
function methodTexts({ versionOf, platform }) {
  const { keys, warmup, alone, connections, runs } = http.size;
  const layers = [...new Set(http.tables.flatMap(layersOf))];
  return [
    `${platform}; ${http.frameworks.map((name) => `${name} ${versionOf(name)}`).join(", ")}. A JSON body of ${REQUEST_BYTES} bytes is answered with ${formatCount(OUTCOME_BYTES)} bytes of JSON, by a handler that does nothing else: what a layer costs is not hidden behind work. wrk sends the requests from a process of its own over ${connections} connections that are kept open, ${formatCount(keys)} first calls and as many replays a run, after a warm-up of ${formatCount(warmup)} keys; then ${formatCount(alone)} over one connection alone; ${runs} runs. Redis (\`appendonly no\`) runs on the same computer, as wrk does. Every run is its own process, and the layers take turns.`,
    `Every run checks that a retry gets the first answer, that a key reused for another request is refused, that ${connections} callers at once run the work once, that under load the work ran once for each key and not again for a replay (but for callers whom the end of the load cut off), and that every answer was a success. A layer that fails fails the benchmark.`,
    "The layers do not promise the same. Ours alone replays more than status, content type and body, tells a late writer that it lost, renews its lease while the handler runs, and lets a caller go away without giving up the key; on Express it alone holds the answer back until it is kept. Here it alone is asked whose each key is.",
    layers
      .map(({ name, packages, settings }) => {
        const versions = packages.map((each) => `${each} ${versionOf(each)}`).join(", ");
        return `- **${versions === "" ? name : versions}**: ${settings}.`;
      })
      .join("\n"),
  ];
}
