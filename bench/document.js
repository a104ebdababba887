/** The results of the suites as text: for the terminal, and as the page in bench/results. */
import { costsText } from "./costs.js";
import { explanationText } from "./explanation.js";
import { formatPage, formatSettings, formatTarget } from "./page.js";
import { formatCount, formatMeant, formatRatio, formatSummary, formatTable } from "./report.js";
import { librariesOf, RAW_RATIO_MEANT } from "./suites.js";
import { MAX_WARM_UPS } from "./warm-up.js";

/** @typedef {import("./suites.js").Suite} Suite */
/** @typedef {import("./suites.js").Table} Table */
/** @typedef {import("./rounds.js").Results} Results */

const PLURALS = /** @type {Record<string, string>} */ ({ delivery: "deliveries" });

/**
 * @param {Suite} suite
 * @param {Table} table
 * @param {Results} results
 */
export function tableText({ operation, kept }, table, { rows, bytes }) {
  const names = librariesOf(table).map(({ name }) => name);
  const hasRaw = table.raw !== undefined;
  const text = formatTable(
    [`${plural(operation)} per second`, ...names, ...(hasRaw ? ["to best peer", "to raw loop"] : ["ratio"])],
    rows.map((row) => [
      row.title,
      formatSummary(row.ours),
      ...[...row.peers, ...(hasRaw ? [row.raw] : [])].map((each) =>
        each ? formatSummary(each) : "not measured",
      ),
      formatRatio(row.ratio),
      ...(row.rawRatio === undefined ? [] : [formatRatio(row.rawRatio)]),
    ]),
  );
  const counts = names.map((name, i) => `${name} ${formatCount(bytes[i] ?? 0)}`).join(", ");
  return [
    text,
    costsText(names, rows),
    table.bytes === undefined ? "" : `${table.bytes} for each ${kept}: ${counts}.`,
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** @param {string} operation */
function plural(operation) {
  return PLURALS[operation] ?? `${operation}s`;
}

/**
 * The functions that take our time, for each row below the ratio that we aim for. Empty if there is none.
 *
 * @param {Suite} suite
 * @param {Results} results
 */
export function hotSpotsText({ peer, operation }, { rows }) {
  return rows
    .flatMap(({ title, ours: { median }, ratio, rawRatio, explanations }) => {
      if (explanations === undefined) return [];
      const microseconds = 1_000_000 / median;
      const ratios = [
        `${formatRatio(ratio)} of ${peer}`,
        ...(rawRatio === undefined ? [] : [`${formatRatio(rawRatio)} of the raw loop`]),
      ].join(", ");
      const threads = explanations.map((each, i) =>
        explanationText(
          i === 0 ? "The main thread" : "The worker thread",
          each,
          microseconds * (1 - each.waiting),
        ),
      );
      return [`**${title}**: ${ratios}; ${microseconds.toFixed(1)} µs for each ${operation}.`, ...threads];
    })
    .join("\n\n");
}

/**
 * The page in bench/results.
 *
 * @param {Suite} suite
 * @param {readonly Results[]} all by table
 * @param {import("./page.js").Measurement} measurement
 */
export function page(suite, all, { versionOf, platform }) {
  const [first] = suite.tables;
  if (first === undefined) throw new Error(`nothing is measured on ${suite.name}`);
  const [conditions, checks, ...more] = suite.method(first.size);
  return formatPage({
    title: suite.title,
    intro: `Written by \`npm run bench -- ${suite.name}\`; do not edit. ${titled(plural(suite.operation))} per second, more is better: the median of the runs, and in brackets the slowest and the fastest run. ${suite.intro}`,
    sections: suite.tables.flatMap((table, i) => {
      const results = all[i];
      if (results === undefined) return [];
      const heading = table.title ?? table.durability;
      const durability = table.title === undefined ? [] : [`${table.durability}.`];
      const opening = [...durability, targetText(suite, table, results)].filter((text) => text !== "");
      return [
        {
          heading,
          texts: [...(opening.length === 0 ? [] : [opening.join(" ")]), tableText(suite, table, results)],
          spots: hotSpotsText(suite, results),
        },
      ];
    }),
    method: [
      `${platform}. ${conditions} Every run is its own process, and the libraries take turns. A run repeats its warm-up until the CPU time of an operation differs by less than 10 % between two of them, at most ${MAX_WARM_UPS} times.`,
      `${checks} A library that fails a check fails the benchmark.`,
      ...more,
      settingsText(suite, versionOf),
    ],
    note: suite.profileNote,
  });
}

/**
 * @param {Suite} suite
 * @param {Table} table
 * @param {Results} results
 */
function targetText({ peer }, { ratioMeant, raw }, { rows }) {
  if (ratioMeant === undefined) return "";
  const loop =
    raw === undefined
      ? ""
      : ` and ${formatRatio(RAW_RATIO_MEANT)} of the raw loop, which sends our statements by hand and shows the most that the store can do`;
  const missed = rows.filter(({ explanations }) => explanations !== undefined).map(({ title }) => title);
  return formatTarget(`${formatMeant(ratioMeant)} of ${peer}${loop}`, missed);
}

/**
 * A library that is not in all tables is listed with the title of its table.
 *
 * @param {Suite} suite
 * @param {(name: string) => string} versionOf
 */
function settingsText({ tables }, versionOf) {
  const lines = tables.flatMap((table) =>
    librariesOf(table).map((library) => {
      const isInAll = tables.every((each) => librariesOf(each).includes(library));
      return formatSettings(library, versionOf, isInAll ? undefined : table.title);
    }),
  );
  return [...new Set(lines)].join("\n");
}

/** @param {string} text */
function titled(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
