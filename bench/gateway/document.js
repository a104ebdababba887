/** The results of the gateway as text: for the terminal, and as the page in bench/results. */

import { OUTCOME_BYTES, REQUEST_BYTES } from "../payload.js";
import { formatCount, formatRatio, formatSummary, formatTable } from "../report.js";
import { api, gateway, ours, plain } from "../suites/gateway.js";

/** @typedef {import("./rounds.js").Row} Row */

/** @param {Row} row */
function nameOf({ subject, phase }) {
  if (subject === plain) return plain.name;
  if (subject === api) return `${api.name}, claims`;
  return `${ours.name}, ${phase === "first" ? "first call" : "replay"}`;
}

/** @param {readonly Row[]} rows */
export function gatewayText(rows) {
  return formatTable(
    ["", "requests per second", "of the plain proxy", "p50, ms", "p99, ms", "µs of processor"],
    rows.map((row) => [
      nameOf(row),
      formatSummary(row.perSecond),
      row.ratio === undefined ? "" : formatRatio(row.ratio),
      row.p50.toFixed(2),
      row.p99.toFixed(2),
      row.processorMicroseconds.toFixed(1),
    ]),
  );
}

/**
 * The functions that take our time, for each row below the ratio that we aim for.
 *
 * @param {readonly Row[]} rows
 */
export function gatewaySpotsText(rows) {
  return rows
    .flatMap((row) => {
      if (row.explanation === undefined) return [];
      const { waiting, hotSpots } = row.explanation;
      return [
        `**${nameOf(row)}**: ${formatRatio(row.ratio ?? 0)} of the plain proxy where ${formatRatio(gateway.ratioMeant)} is meant. Its thread waits for ${percent(waiting)} of the time, and does in the rest:`,
        formatTable(
          ["self time", "share", "µs"],
          hotSpots.map(({ place, share }) => [
            place,
            percent(share),
            (share * row.processorMicroseconds).toFixed(2),
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
 * @param {readonly Row[]} rows
 * @param {{ platform: string }} measurement
 */
export function gatewayPage(rows, { platform }) {
  const { runs, keys, warmup, connections } = gateway.size;
  const spots = gatewaySpotsText(rows);
  const paragraphs = [
    `# ${gateway.title}`,
    "Written by `npm run bench -- gateway`; do not edit. Requests per second, more is better: the median of the runs and, in brackets, their spread.",
    gatewayText(rows),
    "## How it was measured",
    `${platform}. ${gateway.durability} A JSON body of ${REQUEST_BYTES} bytes is answered with ${formatCount(OUTCOME_BYTES)} bytes of JSON, by a service that does nothing else. wrk, the proxy and the service are processes of their own on the same computer; ${connections} connections that are kept open, ${formatCount(keys)} first calls and as many replays a run, after a warm-up of ${formatCount(warmup)}; ${runs} runs, in turn. Every run checks that each answer was a success, and that the service ran once for each key.`,
    [plain, ours, api].map(({ name, settings }) => `- **${name}**: ${settings}.`).join("\n"),
    ...(spots === "" ? [] : ["## What our time goes into", spots]),
  ];
  return `${paragraphs.join("\n\n")}\n`;
}
