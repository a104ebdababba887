/** Messages through a network of five nodes that have keys, and through the same network without any. */
import { REQUEST_BYTES } from "../payload.js";
import { formatCount } from "../report.js";
import { DELIVERIES, inMemoryAndOnRedis } from "./events.js";

/** @type {import("../suites.js").Suite} */
export const pipeline = {
  name: "pipeline",
  title: "Pipelines",
  script: "pipeline/measure.js",
  operation: "message",
  peer: "no keys",
  kept: "message",
  phases: DELIVERIES,
  quick: { runs: 2, count: 1_000, warmup: 200 },
  intro:
    "Messages go through a network of five nodes in one process. The ratio compares the network whose nodes all have keys to the same network without keys, which runs every node for every delivery.",
  method: ({ runs, count, warmup, inFlight }) => [
    `${inFlight} messages in flight, ${REQUEST_BYTES} bytes each, and a concurrency of ${inFlight} in every node; ${formatCount(count)} messages a run, each pushed twice, after a warm-up of ${formatCount(warmup)}; ${runs} runs. The five nodes stand in a row and only send the message on, so this is the most that keys can cost: a claim and a mark for each node, and one more of each for the whole. What a node emits is kept with its mark. The clock stops when the last message is settled. The server runs on the same computer.`,
    "Every run checks that each message went through each node, once with keys and twice without, and that every delivery was acknowledged.",
  ],
  tables: inMemoryAndOnRedis({
    library: { name: "with keys", file: "pipeline-keyed" },
    packages: ["nevertwice"],
    how: '`idempotency: { key: "key" }` in every node, every other option at its default',
    peer: {
      name: "no keys",
      file: "pipeline-bare",
      packages: ["nevertwice"],
      settings: "the same network, whose nodes have no `idempotency`: it never calls the store",
    },
    ratioMeant: 0.45,
    size: { runs: 5, count: 10_000, warmup: 5_000, inFlight: 64 },
  }),
};
