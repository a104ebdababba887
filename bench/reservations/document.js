/** The results of reservations as text: for the terminal, and as the page in bench/results. */
import { threadText } from "../document.js";
import { formatCount, formatRatio, formatSummary, formatTable } from "../report.js";
import { reservations } from "../suites/reservations.js";

/** @typedef {import("../suites/reservations.js").Table} Table */
/** @typedef {import("./rounds.js").Results} Results */

/**
 * @param {Table} table
 * @param {Results} results
 */
export function holdsText({ ours, byHand, bytes }, { rows, bytesPerHold }) {
  const text = formatTable(
    ["actions per second", ours.name, byHand.name, "ratio"],
    rows.map((row) => [
      row.title,
      formatSummary(row.ours),
      formatSummary(row.byHand),
      formatRatio(row.ratio),
    ]),
  );
  if (bytes === undefined) return text;
  const counts = `${ours.name} ${formatCount(bytesPerHold.ours)}, ${byHand.name} ${formatCount(bytesPerHold.byHand)}`;
  return `${text}\n\n${bytes} for each confirmed hold, its two keys included: ${counts}.`;
}

/**
 * The functions that take our time, for each row below the ratio that we aim for. Empty if there is none.
 *
 * @param {Table} table
 * @param {Results} results
 */
export function holdSpotsText({ ratioMeant }, { rows }) {
  return rows
    .flatMap(({ title, ours: { median }, ratio, explanations }) => {
      if (explanations === undefined || ratioMeant === undefined) return [];
      const microseconds = 1_000_000 / median;
      return [
        `**${title}**: ${formatRatio(ratio)} of the one by hand where ${formatRatio(ratioMeant)} is meant; ${microseconds.toFixed(1)} µs an action.`,
        ...explanations.map((each, i) => threadText(i, each, microseconds)),
      ];
    })
    .join("\n\n");
}

/**
 * The page in bench/results.
 *
 * @param {readonly Results[]} all by table
 * @param {{ versionOf: (name: string) => string, platform: string }} measurement
 */
export function reservationsPage(all, { versionOf, platform }) {
  const { tables } = reservations;
  const paragraphs = [
    `# ${reservations.title}`,
    "Written by `npm run bench -- reservations`; do not edit. Actions per second, more is better: the median of the runs and, in brackets, their spread. The ratio is ours to the same flow by hand: plain SQL, one transaction for each call.",
  ];
  for (const [i, table] of tables.entries()) {
    const results = all[i];
    if (results === undefined) continue;
    paragraphs.push(
      `## ${table.title}`,
      `${table.durability}. ${barText(table, results)}`,
      holdsText(table, results),
    );
  }
  paragraphs.push("## How it was measured", ...methodTexts({ versionOf, platform }));
  const spots = tables.flatMap((table, i) => {
    const text = all[i] === undefined ? "" : holdSpotsText(table, all[i]);
    return text === "" ? [] : [`### ${table.title}`, text];
  });
  if (spots.length > 0)
    paragraphs.push(
      "## What our time goes into",
      "`backup` is V8's name for whatever the SQLite driver does in native code, its flushes included.",
      ...spots,
    );
  return `${paragraphs.join("\n\n")}\n`;
}

/**
 * @param {Table} table
 * @param {Results} results
 */
function barText({ ratioMeant }, { rows }) {
  if (ratioMeant === undefined) return "Nothing is meant here: there is no flush to share.";
  const missed = rows.filter(({ ratio }) => ratio < ratioMeant).map(({ title }) => title);
  const meant = `Meant is ${formatRatio(ratioMeant)} of the one by hand`;
  return missed.length === 0 ? `${meant}.` : `${meant}; not reached by: ${missed.join("; ")}.`;
}

/** @param {{ versionOf: (name: string) => string, platform: string }} measurement */
function methodTexts({ versionOf, platform }) {
  const sizes = reservations.tables.map(
    ({ title, size: { holds, warmup } }) => `${title} ${formatCount(holds)} after ${formatCount(warmup)}`,
  );
  const [table] = reservations.tables;
  if (table === undefined) throw new Error("nothing is measured");
  const { inFlight, runs } = table.size;
  return [
    `${platform}. ${inFlight} actions in flight, one unit each, all of them under keys of their own; ${runs} runs. Each line of a table asks for so many actions, after a warm-up of so many: ${sizes.join(", ")}. The server, where there is one, runs on the same computer and is emptied before each run. Every run is its own process, and the two take turns.`,
    `Every run checks that each hold was placed and confirmed, that no two have one id, that a retry was answered with the first answer, that a key reused for another request was refused, that ${inFlight} concurrent callers of one key placed one hold, that ${inFlight} callers who wanted one last seat got it once, that the pool was not oversold, and that nothing was confirmed twice. A failed check fails the benchmark.`,
    reservations.tables
      .flatMap(({ title, ours, byHand }) =>
        [ours, byHand].map(({ name, packages, settings }) => {
          const versions = packages.map((each) => `${each} ${versionOf(each)}`).join(", ");
          return `- **${title}, ${packages.includes(name) ? versions : `${name}, ${versions}`}**: ${settings}.`;
        }),
      )
      .join("\n"),
  ];
}
