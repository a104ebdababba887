/** What one operation costs besides its share of the throughput: processor time, waiting time alone, and blocked event loops. */
import { formatTable, median } from "./report.js";

/**
 * What one phase of one run cost. `client` and `server` are microseconds of processor time for each operation; a database
 * in the process of the library has no server. `blockedMs` is the longest time in which the event loop did not turn.
 *
 * @typedef {object} Costs
 * @property {number} client
 * @property {number} [server]
 * @property {number} blockedMs
 * @property {{ p50: number, p99: number }} [alone] microseconds that a call took while no other was in flight
 */

/**
 * The median of each number. A number that a run lacks is missing in the result.
 *
 * @param {readonly (Costs | undefined)[]} runs
 * @returns {Costs | undefined}
 */
export function medianCosts(runs) {
  const all = runs.filter((costs) => costs !== undefined);
  if (all.length === 0) return undefined;
  /** @param {(costs: Costs) => number | undefined} read */
  const middle = (read) => {
    const numbers = all.map(read).filter((number) => number !== undefined);
    return numbers.length < all.length ? undefined : median(numbers);
  };
  const server = middle((costs) => costs.server);
  const p50 = middle((costs) => costs.alone?.p50);
  const p99 = middle((costs) => costs.alone?.p99);
  return {
    client: median(all.map(({ client }) => client)),
    ...(server !== undefined && { server }),
    blockedMs: median(all.map(({ blockedMs }) => blockedMs)),
    ...(p50 !== undefined && p99 !== undefined && { alone: { p50, p99 } }),
  };
}

/** @type {readonly { title: string, format: (costs: Costs) => string | undefined }[]} */
const LINES = [
  { title: "CPU of the client, µs", format: ({ client }) => client.toFixed(1) },
  { title: "CPU of the server, µs", format: ({ server }) => server?.toFixed(1) },
  {
    title: "alone, p50 / p99, µs",
    format: ({ alone }) => alone && `${alone.p50.toFixed(0)} / ${alone.p99.toFixed(0)}`,
  },
  { title: "longest block of the event loop, ms", format: ({ blockedMs }) => blockedMs.toFixed(1) },
];

/**
 * A table with one column for each library, and for each phase the lines that a library has.
 *
 * @param {readonly string[]} names of the libraries
 * @param {readonly { title: string, costs: readonly (Costs | undefined)[] }[]} rows
 */
export function costsText(names, rows) {
  const lines = rows.flatMap(({ title, costs }) =>
    LINES.flatMap((line) => {
      const cells = costs.map((each) => each && line.format(each));
      return cells.every((cell) => cell === undefined)
        ? []
        : [[`${title}: ${line.title}`, ...cells.map((cell) => cell ?? "")]];
    }),
  );
  return lines.length === 0 ? "" : formatTable(["medians of the runs", ...names], lines);
}

/**
 * @param {readonly number[]} milliseconds of calls
 * @returns {{ p50: number, p99: number }} in microseconds
 */
export function percentiles(milliseconds) {
  const sorted = [...milliseconds].sort((a, b) => a - b);
  /** @param {number} share */
  const at = (share) => {
    const found = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    if (found === undefined) throw new RangeError("nothing was measured");
    return found * 1_000;
  };
  return { p50: at(0.5), p99: at(0.99) };
}
