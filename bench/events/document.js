/** The results of the consumers as text: for the terminal, and as the page in bench/results. */
import { pairedPage, pairedTable } from "../paired-page.js";
import { REQUEST_BYTES } from "../payload.js";
import { formatCount } from "../report.js";
import { events } from "../suites/events.js";

/** @typedef {import("../suites/events.js").Table} Table */
/** @typedef {import("../paired.js").Row} Row */
/** @typedef {{ versionOf: (name: string) => string, platform: string }} Measurement */

const UNIT = "deliveries per second";

/**
 * @param {Table} table
 * @param {readonly Row[]} rows
 */
export function deliveriesText(table, rows) {
  return pairedTable(UNIT, events, table, rows);
}

/**
 * @param {readonly (readonly Row[])[]} all by table
 * @param {Measurement} measurement
 */
export function eventsPage(all, { versionOf, platform }) {
  const [table] = events.tables;
  if (table === undefined) throw new Error("nothing is measured");
  const { inFlight, runs, messages, warmup } = table.size;
  return pairedPage(events, {
    unit: UNIT,
    intro:
      "Written by `npm run bench -- events`; do not edit. Deliveries of NATS JetStream that one process consumes in a second, more is better: the median of the runs and, in brackets, their spread. The ratio is ours to the same consumer without a guard, which does the work of every delivery, those of what is done included.",
    method: [
      `${platform}. ${inFlight} deliveries in flight, ${REQUEST_BYTES} bytes each; ${formatCount(messages)} messages a run, each delivered twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs. The work reads the message as JSON and costs nothing else, so this is the most that a guard can cost. The stream is kept in the server's memory; all is sent before the clock starts, and it stops when the last answer is with the server. The servers run on the same computer. Every run is its own process, and the two take turns.`,
      "Every run checks that each message was done, once with the guard and twice without, and that every delivery was acknowledged. A failed check fails the benchmark.",
    ],
    all,
    versionOf,
  });
}
