/** The results of the gateway as text: for the terminal, and as the page in bench/results. */
import { loadSection, loadSpotsText, PHASE_TITLES } from "../http/section.js";
import { formatPage, formatSettings } from "../page.js";
import { OUTCOME_BYTES, REQUEST_BYTES } from "../payload.js";
import { formatCount, formatRatio, formatSummary, formatTable } from "../report.js";
import { api, gateway, ours, plain } from "../suites/gateway.js";

/** @typedef {import("../http/comparison.js").Row<import("../suites/gateway.js").Subject>} Row */

/** @param {Row} row */
function nameOf({ side, phase }) {
  if (side === plain) return plain.name;
  return side === api ? `${api.name}, claims` : `${ours.name}, ${PHASE_TITLES[phase]}`;
}

/** @param {readonly Row[]} rows */
export function gatewayText(rows) {
  return formatTable(
    ["", "requests per second", "of the plain proxy", "p50, ms", "p99, ms", "µs of processor"],
    rows.map((row) => [
      nameOf(row),
      formatSummary(row.perSecond),
      row.side === api ? "" : formatRatio(row.ratio),
      row.latency.p50.toFixed(2),
      row.latency.p99.toFixed(2),
      row.processorMicroseconds.toFixed(1),
    ]),
  );
}

/** @param {readonly Row[]} rows */
export function gatewaySpotsText(rows) {
  return loadSpotsText(rows, nameOf, "the plain proxy");
}

/**
 * @param {readonly (readonly Row[])[]} all by table
 * @param {import("../page.js").Measurement} measurement
 */
export function gatewayPage(all, { versionOf, platform }) {
  const [first] = gateway.tables;
  if (first === undefined) throw new Error("nothing is measured");
  const { runs, keys, warmup, connections } = first.size;
  return formatPage({
    title: gateway.title,
    intro:
      "Written by `npm run bench -- gateway`; do not edit. Requests per second, more is better: the median of the runs, and in brackets the slowest and the fastest run.",
    sections: all.map((rows, i) => {
      const { title, durability, ratioMeant } = gateway.tables[i] ?? first;
      return loadSection({
        heading: title,
        opening: `${durability}.`,
        target: `${formatRatio(ratioMeant)} of the plain proxy`,
        table: gatewayText(rows),
        rows,
        nameOf,
        spots: gatewaySpotsText(rows),
      });
    }),
    method: [
      `${platform}. A JSON body of ${REQUEST_BYTES} bytes is answered with ${formatCount(OUTCOME_BYTES)} bytes of JSON, by a service that does nothing else. wrk, the proxy and the service are separate processes on the same computer; ${connections} connections that are kept open, ${formatCount(keys)} first calls and as many replays a run, after a warm-up of ${formatCount(warmup)}; ${runs} runs, in turn. Every run checks that each answer was a success, and that the service ran once for each key.`,
      [plain, ours, api].map((subject) => formatSettings(subject, versionOf)).join("\n"),
    ],
  });
}
