/** Turns the numbers of the runs into summaries and tables. It measures nothing and reads nothing. */

/** @typedef {{ median: number, least: number, most: number }} Summary of one library's runs */

/** @param {readonly number[]} numbers */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const upper = sorted[sorted.length >> 1];
  const lower = sorted[(sorted.length - 1) >> 1];
  if (upper === undefined || lower === undefined) throw new RangeError("nothing was measured");
  return (lower + upper) / 2;
}

/**
 * @param {readonly number[]} numbers
 * @returns {Summary}
 */
export function summarise(numbers) {
  return { median: median(numbers), least: Math.min(...numbers), most: Math.max(...numbers) };
}

/**
 * Our median over that of the best of the others: above 1, we are faster.
 *
 * @param {Summary} ours
 * @param {readonly Summary[]} others
 */
export function ratioToBest(ours, others) {
  return ours.median / Math.max(...others.map((other) => other.median));
}

/**
 * "12,345 (11,900 to 13,002)"
 *
 * @param {Summary} summary
 */
export function formatSummary({ median: middle, least, most }) {
  return `${formatCount(middle)} (${formatCount(least)} to ${formatCount(most)})`;
}

/**
 * What a ratio has to reach: one number, or one for first calls and one for replays.
 *
 * @typedef {number | Readonly<Record<"first" | "replay", number>>} Meant
 */

/**
 * @param {Meant} meant
 * @param {string} phase
 */
export function meantFor(meant, phase) {
  return typeof meant === "number" ? meant : meant[phase === "first" ? "first" : "replay"];
}

/** @param {Meant} meant */
export function formatMeant(meant) {
  if (typeof meant === "number") return formatRatio(meant);
  return `${formatRatio(meant.first)} (first) and ${formatRatio(meant.replay)} (replay)`;
}

/** @param {number} ratio */
export function formatRatio(ratio) {
  return `${ratio.toFixed(2)}x`;
}

/** @param {number} count */
export function formatCount(count) {
  return Math.round(count).toLocaleString("en-US");
}

/**
 * A Markdown table whose columns also line up in a terminal. All but the first column hold numbers.
 *
 * @param {readonly string[]} header
 * @param {readonly (readonly string[])[]} rows
 */
export function formatTable(header, rows) {
  const widths = header.map((title, column) =>
    Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  /** @param {readonly string[]} cells */
  const line = (cells) => {
    const padded = widths.map((width, i) => {
      const cell = cells[i] ?? "";
      return i === 0 ? cell.padEnd(width) : cell.padStart(width);
    });
    return `| ${padded.join(" | ")} |`;
  };
  const rule = widths.map((width, i) => (i === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [line(header), line(rule), ...rows.map(line)].join("\n");
}
