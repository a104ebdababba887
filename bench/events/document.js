/** What was measured of consumers, as text: for the terminal, and as the page that is kept. Pure, like report.js. */
import { events } from "../grounds/events.js";
import { REQUEST_BYTES } from "../payload.js";
import { formatCount, formatRatio, formatSummary, formatTable } from "../report.js";

/** @typedef {import("../grounds/events.js").Table} Table */
/** @typedef {import("./rounds.js").Row} Row */
/** @typedef {{ versionOf: (name: string) => string, platform: string }} Measurement */

/**
 * @param {Table} table
 * @param {readonly Row[]} rows
 */
export function deliveriesText({ ours }, rows) {
  return formatTable(
    ["deliveries per second", ours.name, events.bare.name, "ratio"],
    rows.map((row) => [row.title, formatSummary(row.ours), formatSummary(row.bare), formatRatio(row.ratio)]),
  );
}

/**
 * The page that is kept.
 *
 * @param {readonly (readonly Row[])[]} all by table
 * @param {Measurement} measurement
 */
export function eventsPage(all, measurement) {
  const paragraphs = [
    `# ${events.title}`,
    "Written by `npm run bench -- events`; do not edit. Deliveries of NATS JetStream that one process consumes in a second, more is better: the median of the runs and, in brackets, their spread. The ratio is ours to the same consumer without a guard, which does the work of every delivery, those of what is done included.",
  ];
  for (const [i, table] of events.tables.entries()) {
    const rows = all[i];
    if (rows !== undefined)
      paragraphs.push(`## ${table.title}`, `${table.durability}.`, deliveriesText(table, rows));
  }
  return `${[...paragraphs, "## How it was measured", ...methodTexts(measurement)].join("\n\n")}\n`;
}

/** @param {Measurement} measurement */
function methodTexts({ versionOf, platform }) {
  const [table] = events.tables;
  if (table === undefined) throw new Error("nothing is measured");
  const { inFlight, runs, messages, warmup } = table.size;
  const settings = [
    ...events.tables.map(({ title, ours }) => ({ ...ours, name: `${title}, ${ours.name}` })),
    events.bare,
  ];
  return [
    `${platform}. ${inFlight} deliveries in flight, ${REQUEST_BYTES} bytes each; ${formatCount(messages)} messages a run, each delivered twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs. The work reads the message as JSON and costs nothing else, so this is the most that a guard can cost. The stream is kept in the server's memory; all is sent before the clock starts, and it stops when the last answer is with the server. The servers run on the same computer. Every run is a process of its own, and the two take turns.`,
    "Every run checks that each message was done, once with the guard and twice without, and that every delivery was acknowledged. Whoever fails fails the benchmark.",
    settings
      .map(({ name, packages, settings: how }) => {
        const versions = packages.map((each) => `${each} ${versionOf(each)}`).join(", ");
        return `- **${name}** (${versions}): ${how}.`;
      })
      .join("\n"),
  ];
}
