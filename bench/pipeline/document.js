/** What was measured of pipelines, as text: for the terminal, and as the page that is kept. Pure, like report.js. */
import { pipeline } from "../grounds/pipeline.js";
import { REQUEST_BYTES } from "../payload.js";
import { formatCount, formatRatio, formatSummary, formatTable } from "../report.js";

/** @typedef {import("../grounds/pipeline.js").Table} Table */
/** @typedef {import("./rounds.js").Row} Row */
/** @typedef {{ versionOf: (name: string) => string, platform: string }} Measurement */

/**
 * @param {Table} table
 * @param {readonly Row[]} rows
 */
export function messagesText({ ours }, rows) {
  return formatTable(
    ["messages per second", ours.name, pipeline.bare.name, "ratio"],
    rows.map((row) => [row.title, formatSummary(row.ours), formatSummary(row.bare), formatRatio(row.ratio)]),
  );
}

/**
 * The page that is kept.
 *
 * @param {readonly (readonly Row[])[]} all by table
 * @param {Measurement} measurement
 */
export function pipelinePage(all, measurement) {
  const paragraphs = [
    `# ${pipeline.title}`,
    "Written by `npm run bench -- pipeline`; do not edit. Messages that go through a network of five nodes in a second, in one process, more is better: the median of the runs and, in brackets, their spread. The ratio is the network whose nodes all have keys to the same network without any, which runs every node for every delivery.",
  ];
  for (const [i, table] of pipeline.tables.entries()) {
    const rows = all[i];
    if (rows !== undefined)
      paragraphs.push(`## ${table.title}`, `${table.durability}.`, messagesText(table, rows));
  }
  return `${[...paragraphs, "## How it was measured", ...methodTexts(measurement)].join("\n\n")}\n`;
}

/** @param {Measurement} measurement */
function methodTexts({ versionOf, platform }) {
  const [table] = pipeline.tables;
  if (table === undefined) throw new Error("nothing is measured");
  const { inFlight, runs, messages, warmup } = table.size;
  const settings = [
    ...pipeline.tables.map(({ title, ours }) => ({ ...ours, name: `${title}, ${ours.name}` })),
    pipeline.bare,
  ];
  return [
    `${platform}. ${inFlight} messages in flight, ${REQUEST_BYTES} bytes each, and a concurrency of ${inFlight} in every node; ${formatCount(messages)} messages a run, each pushed twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs. The five nodes stand in a row and do nothing but send the message on, so this is the most that keys can cost: a claim and a mark for each node, and one more of each for the whole. What a node emits is kept with its mark. The clock stops when the last message is settled. The server runs on the same computer. Every run is a process of its own, and the two take turns.`,
    "Every run checks that each message went through each node, once with keys and twice without, and that every delivery was acknowledged. Whoever fails fails the benchmark.",
    settings
      .map(({ name, packages, settings: how }) => {
        const versions = packages.map((each) => `${each} ${versionOf(each)}`).join(", ");
        return `- **${name}** (${versions}): ${how}.`;
      })
      .join("\n"),
  ];
}
