/** The results of the HTTP layers as text: for the terminal, and as the page in bench/results. */

import { formatPage, formatSettings } from "../page.js";
import { OUTCOME_BYTES, REQUEST_BYTES } from "../payload.js";
import { formatCount, formatMeant, formatRatio, formatSummary, formatTable } from "../report.js";
import { bare, http, ours } from "../suites/http.js";
import { loadSection, loadSpotsText, PHASE_TITLES } from "./section.js";

/** @typedef {import("../suites/http.js").Layer} Layer */
/** @typedef {import("./comparison.js").Row<Layer>} Row */

/**
 * The latencies of the bare application are whole; those of the others are what a layer adds to them.
 *
 * @param {readonly Row[]} rows
 */
export function layersText(rows) {
  const whole = rows[0]?.latency;
  return formatTable(
    ["", "requests per second", "of bare", "p50", "p99", "alone, p50", "alone, p99", "µs of processor"],
    rows.map(({ side, phase, perSecond, ratio, latency, processorMicroseconds }) => [
      side === bare ? bare.name : `${side.name}, ${PHASE_TITLES[phase]}`,
      formatSummary(perSecond),
      formatRatio(ratio),
      .../** @type {const} */ (["p50", "p99", "aloneP50", "aloneP99"]).map((name) =>
        side === bare ? latency[name].toFixed(2) : signed(latency[name] - (whole?.[name] ?? 0)),
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

/** @param {Row} row */
function phaseTitle({ phase }) {
  return PHASE_TITLES[phase];
}

/** @param {readonly Row[]} rows */
export function layerSpotsText(rows) {
  return loadSpotsText(rows, phaseTitle, "the bare application");
}

/**
 * The page in bench/results.
 *
 * @param {readonly (readonly Row[])[]} all by table
 * @param {import("../page.js").Measurement} measurement
 */
export function httpPage(all, measurement) {
  return formatPage({
    title: http.title,
    intro:
      "Written by `npm run bench -- http`; do not edit. Requests per second, more is better: the median of the runs, and in brackets the slowest and the fastest run. `of bare` compares with the application that has nothing in front of its handler. The latencies are in milliseconds. For the bare application they are whole; for a layer they are what it adds, under load and for one caller alone.",
    sections: http.tables.flatMap((table, i) => {
      const rows = all[i];
      if (rows === undefined) return [];
      const rivals = table.peers.length === 0 ? "" : ", and more than any peer";
      return [
        loadSection({
          heading: table.title,
          target: `${formatMeant(table.ratioMeant)} of bare${rivals}`,
          table: layersText(rows),
          rows,
          nameOf: phaseTitle,
          spots: layerSpotsText(rows),
        }),
      ];
    }),
    method: methodTexts(measurement),
  });
}

/** @param {import("../page.js").Measurement} measurement */
function methodTexts({ versionOf, platform }) {
  const [first] = http.tables;
  if (first === undefined) throw new Error("nothing is measured");
  const { keys, warmup, alone, connections, runs } = first.size;
  const layers = [...new Set([bare, ours, ...http.tables.flatMap(({ peers }) => peers)])];
  return [
    `${platform}; ${http.frameworks.map((name) => `${name} ${versionOf(name)}`).join(", ")}. A JSON body of ${REQUEST_BYTES} bytes is answered with ${formatCount(OUTCOME_BYTES)} bytes of JSON, by a handler that does nothing else, so that no work hides what a layer costs. wrk sends the requests from its own process over ${connections} connections that are kept open: ${formatCount(keys)} first calls and as many replays a run, after a warm-up of ${formatCount(warmup)} keys; then ${formatCount(alone)} over one connection alone; ${runs} runs. Redis (\`appendonly no\`) and wrk run on the same computer. Every run is its own process, and the layers take turns.`,
    `Every run checks that a retry gets the first answer, that a key reused for another request is refused, that ${connections} concurrent callers run the work once, that under load the work ran once for each key and not again for a replay (except for callers that were cut off at the end of the load), and that every answer was a success. A layer that fails a check fails the benchmark.`,
    "The layers do not promise the same. Only nevertwice replays more than status, content type and body, tells a late writer that it lost, renews its lease while the handler runs, and keeps the key when a caller disconnects. On Express only nevertwice holds the answer back until it is stored. Here only nevertwice is told the owner of each key.",
    layers.map((layer) => formatSettings(layer, versionOf)).join("\n"),
  ];
}
