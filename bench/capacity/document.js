/** What a key and a call cost: for the terminal, as the page in bench/results, and as the file that `nevertwice plan` reads. */
import { formatPage } from "../page.js";
import { formatCount, formatTable } from "../report.js";
import { capacity } from "../suites/capacity.js";

/** @typedef {import("./rounds.js").Coefficients} Coefficients */
/** @typedef {import("./rounds.js").Line} Line */

/** @param {Coefficients} coefficients */
export function capacityText({ bytes, memory, log, first, replay, purge }) {
  const micros = (/** @type {number | undefined} */ value) => value?.toFixed(1) ?? "-";
  return formatTable(
    ["cost", "value"],
    [
      ["bytes of a key", formatLine(bytes)],
      ["bytes of a key that should be in memory", formatLine(memory)],
      ["bytes of the log, each first call", formatLine(log)],
      ["first call: CPU of the client, µs", micros(first.client)],
      ["first call: CPU of the server, µs", micros(first.server)],
      ["replay: CPU of the client, µs", micros(replay.client)],
      ["replay: CPU of the server, µs", micros(replay.server)],
      ["purge by one guard, records a second", purge === undefined ? "-" : formatCount(purge.perSecond)],
      ["purge: CPU of the client, µs a record", micros(purge?.client)],
      ["purge: CPU of the server, µs a record", micros(purge?.server)],
    ],
  );
}

/** @param {Line | undefined} line */
function formatLine(line) {
  return line === undefined
    ? "-"
    : `${formatCount(line.fixed)} + ${line.perByte.toFixed(2)} for each byte of the outcome`;
}

/**
 * What ids that are hashes cost on Postgres, and what ids in the order of time would cost.
 *
 * @param {import("./rounds.js").Ids} ids
 */
export function idsText({ hashed, ordered }) {
  const row = (/** @type {string} */ title, /** @type {keyof typeof hashed} */ what) => [
    title,
    formatCount(hashed[what]),
    formatCount(ordered[what]),
    formatCount(hashed[what] - ordered[what]),
  ];
  return formatTable(
    ["bytes, each key", "ids are hashes", "ids begin with the time", "difference"],
    [
      row("index on ids", "index"),
      row("log after a checkpoint, `wal_compression = off`", "log"),
      row("log after a checkpoint, `wal_compression = on`", "compressedLog"),
    ],
  );
}

/**
 * The tables of one store.
 *
 * @param {Coefficients} coefficients
 * @returns {readonly string[]}
 */
export function capacityTexts(coefficients) {
  const { ids } = coefficients;
  return [capacityText(coefficients), ...(ids === undefined ? [] : [idsText(ids)])];
}

/**
 * @param {readonly Coefficients[]} all by table
 * @param {import("../page.js").LoadedMeasurement} measurement
 */
export function capacityPage(all, { platform, load }) {
  const [{ size }] = /** @type {[import("../suites/capacity.js").CapacityTable]} */ (
    /** @type {unknown} */ (capacity.tables)
  );
  return formatPage({
    title: capacity.title,
    intro: `Written by \`npm run bench -- ${capacity.name}\`; do not edit. What a key and a call cost on each store. \`nevertwice plan\` multiplies these numbers.`,
    sections: capacity.tables.map(({ title, durability }, i) => ({
      heading: title,
      texts: [`${durability}.`, ...(all[i] === undefined ? [] : capacityTexts(all[i]))],
      spots: "",
    })),
    method: [
      `${platform}. Each run is its own process on an empty database, with ${formatCount(size.count)} keys and ${size.inFlight} calls in flight. Outcomes had ${capacity.outcomes.map(formatCount).join(", ")} bytes; runs with each size: ${size.runs}. Bytes are the line of least squares through the medians, times the median of all runs, and the speed of a purge that of the fastest run. Outcomes are random text, which does not compress. Client, server and store are on one machine.`,
      `The comparison of ids fills the table with ${formatCount(size.ids.keys)} keys of ${formatCount(size.ids.outcomeBytes)} bytes, and counts the log of ${size.ids.calls} first calls right after a checkpoint, ${size.ids.rounds} times: the median. Nearly every page of an index that such a call changes is new to the log, so the log gets the whole page.`,
      `The load average was ${load.toFixed(1)}. Above the number of processors, other work ran on the machine at the same time: processor time and bytes depend little on that, and a purge is slower.`,
    ],
  });
}

/**
 * The module with the coefficients.
 *
 * @param {readonly Coefficients[]} all by table
 * @param {{ date: string, platform: string }} measurement
 */
export function coefficientsModule(all, { date, platform }) {
  const stores = Object.fromEntries(
    capacity.tables.map(({ store }, i) => [store, all[i] === undefined ? {} : rounded(all[i])]),
  );
  return `/** What a key and a call cost on each store. Written by \`npm run bench -- ${capacity.name}\`; do not edit. */
import type { Coefficients, PlannedStore } from "./capacity.ts";

export const MEASURED = ${JSON.stringify({ date, on: platform, outcomes: capacity.outcomes })};

export const COEFFICIENTS: Readonly<Record<PlannedStore, Coefficients>> = ${JSON.stringify(stores)};
`;
}

const DIGITS = 3;

/**
 * With as many digits as were measured.
 *
 * @param {object} value
 * @returns {unknown}
 */
function rounded(value) {
  return JSON.parse(
    JSON.stringify(value, (_, each) => (typeof each === "number" ? Number(each.toPrecision(DIGITS)) : each)),
  );
}
