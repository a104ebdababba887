/** The results of the outbox as text: for the terminal, and as the page in bench/results. */
import { formatCount, formatSummary, formatTable } from "../report.js";
import { outbox } from "../suites/outbox.js";

/** @typedef {import("./rounds.js").Row} Row */

/** @param {readonly Row[]} rows */
export function outboxText(rows) {
  return formatTable(
    ["messages per second", "delivered", "relay CPU, µs a message", "server CPU, µs a message"],
    rows.map(({ title, summary, relayMicros, serverMicros }) => [
      title,
      formatSummary(summary),
      String(Math.round(relayMicros)),
      serverMicros === undefined ? "in the relay" : String(Math.round(serverMicros)),
    ]),
  );
}

/**
 * @param {readonly (readonly Row[])[]} all
 * @param {import("../page.js").Measurement} measurement
 */
export function outboxPage(all, { versionOf, platform }) {
  const sections = outbox.tables.map(({ database, durability, size }, index) => {
    const { runs, messages, warmup, producers } = size;
    return `## ${database}

${outboxText(all[index] ?? [])}

${durability}. ${formatCount(messages)} messages a run after a warm-up of ${formatCount(warmup)}, 1,000 for one key; ${producers} producers, each of which commits one message a transaction; ${runs} runs.`;
  });
  return `# ${outbox.title}

Written by \`npm run bench -- outbox\`; do not edit. Messages per second that relays deliver to a function that only counts them, more is better: the
median of the runs and, in brackets, their spread. The messages are in the table before the relays start, except beside producers. A relay has \`batch: 500\` and
is a process of its own. Every run checks that each message was delivered once and that the table is empty. A failed check fails the benchmark.

The messages of one key are delivered one after another, so their rate is one message for each settle and claim, whatever else the relay does.

${sections.join("\n\n")}

${platform}. The database runs on the same computer as the relays. nevertwice ${versionOf("nevertwice")}.
`;
}
