/** The results of the pipelines as text: for the terminal, and as the page in bench/results. */
import { pairedPage, pairedTable } from "../paired-page.js";
import { REQUEST_BYTES } from "../payload.js";
import { formatCount } from "../report.js";
import { pipeline } from "../suites/pipeline.js";

/** @typedef {import("../suites/pipeline.js").Table} Table */
/** @typedef {import("../paired.js").Row} Row */
/** @typedef {{ versionOf: (name: string) => string, platform: string }} Measurement */

const UNIT = "messages per second";

/**
 * @param {Table} table
 * @param {readonly Row[]} rows
 */
export function messagesText(table, rows) {
  return pairedTable(UNIT, pipeline, table, rows);
}

/**
 * @param {readonly (readonly Row[])[]} all by table
 * @param {Measurement} measurement
 */
export function pipelinePage(all, { versionOf, platform }) {
  const [table] = pipeline.tables;
  if (table === undefined) throw new Error("nothing is measured");
  const { inFlight, runs, messages, warmup } = table.size;
  return pairedPage(pipeline, {
    unit: UNIT,
    intro:
      "Written by `npm run bench -- pipeline`; do not edit. Messages that go through a network of five nodes in a second, in one process, more is better: the median of the runs and, in brackets, their spread. The ratio is the network whose nodes all have keys to the same network without any, which runs every node for every delivery.",
    method: [
      `${platform}. ${inFlight} messages in flight, ${REQUEST_BYTES} bytes each, and a concurrency of ${inFlight} in every node; ${formatCount(messages)} messages a run, each pushed twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs. The five nodes stand in a row and do nothing but send the message on, so this is the most that keys can cost: a claim and a mark for each node, and one more of each for the whole. What a node emits is kept with its mark. The clock stops when the last message is settled. The server runs on the same computer. Every run is its own process, and the two take turns.`,
      "Every run checks that each message went through each node, once with keys and twice without, and that every delivery was acknowledged. A failed check fails the benchmark.",
    ],
    all,
    versionOf,
  });
}
