/** The section of a page about applications under load. */
import { explanationText } from "../explanation.js";
import { formatTarget } from "../page.js";
import { formatRatio } from "../report.js";

export const PHASE_TITLES = { first: "first call", replay: "replay" };

/**
 * @template Side
 * @param {object} parts
 * @param {string} parts.heading
 * @param {string} [parts.opening] a sentence in front of the target
 * @param {string} parts.target
 * @param {string} parts.table
 * @param {readonly import("./comparison.js").Row<Side>[]} parts.rows
 * @param {(row: import("./comparison.js").Row<Side>) => string} parts.nameOf
 * @param {string} parts.spots the explanations of the rows
 */
export function loadSection({ heading, opening, target, table, rows, nameOf, spots }) {
  const missed = rows.filter(({ explanation }) => explanation !== undefined).map(nameOf);
  const sentences = [...(opening === undefined ? [] : [opening]), formatTarget(target, missed)];
  return { heading, texts: [sentences.join(" "), table], spots };
}

/**
 * The functions that take our time, for each row that is too slow. Empty if there is none.
 *
 * @template Side
 * @param {readonly import("./comparison.js").Row<Side>[]} rows
 * @param {(row: import("./comparison.js").Row<Side>) => string} nameOf
 * @param {string} base what the ratio compares with
 */
export function loadSpotsText(rows, nameOf, base) {
  return rows
    .flatMap((row) => {
      if (row.explanation === undefined) return [];
      const thread = explanationText("Its main thread", row.explanation, row.processorMicroseconds);
      return [`**${nameOf(row)}**: ${formatRatio(row.ratio)} of ${base}. ${thread}`];
    })
    .join("\n\n");
}
