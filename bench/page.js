/** The parts that all pages of bench/results share. */

/** @typedef {{ versionOf: (name: string) => string, platform: string }} Measurement with which versions, and on which computer */
/** @typedef {Measurement & { load: number }} LoadedMeasurement also with the computer's load average */

/**
 * "Target: 2.00x of the best peer; missed by: replay."
 *
 * @param {string} target
 * @param {readonly string[]} missed titles of rows
 */
export function formatTarget(target, missed) {
  return missed.length === 0 ? `Target: ${target}.` : `Target: ${target}; missed by: ${missed.join("; ")}.`;
}

/**
 * One line of the list that says with which packages and settings a library was measured.
 *
 * @param {{ name: string, packages: readonly string[], settings: string, withFingerprint?: string, withoutFingerprint?: string }} library
 * @param {Measurement["versionOf"]} versionOf
 * @param {string} [table] where it is used, if not in all
 */
export function formatSettings(library, versionOf, table) {
  const { name, packages, settings, withFingerprint, withoutFingerprint } = library;
  const versions = packages.map((each) => `${each} ${versionOf(each)}`);
  const heading = [table, packages.includes(name) ? undefined : name, ...versions];
  const sentences = [
    settings,
    withFingerprint && `With fingerprint: ${withFingerprint}`,
    withoutFingerprint && `Without: ${withoutFingerprint}`,
  ];
  const isGiven = (/** @type {string | undefined} */ text) => text !== undefined;
  return `- **${heading.filter(isGiven).join(", ")}**: ${sentences.filter(isGiven).join(". ")}.`;
}

/**
 * A page of bench/results. Each section has a table; its `spots` say which functions take our time, if it is too slow.
 *
 * @param {object} parts
 * @param {string} parts.title
 * @param {string} parts.intro
 * @param {readonly { heading: string, texts: readonly string[], spots: string }[]} parts.sections
 * @param {readonly string[]} parts.method
 * @param {string | undefined} [parts.note] how to read the spots
 */
export function formatPage({ title, intro, sections, method, note }) {
  const spots = sections.filter((section) => section.spots !== "");
  const paragraphs = [
    `# ${title}`,
    intro,
    ...sections.flatMap(({ heading, texts }) => [`## ${heading}`, ...texts]),
    "## How it was measured",
    ...method,
    ...(spots.length === 0 ? [] : ["## What our time goes into", ...(note === undefined ? [] : [note])]),
    ...spots.flatMap((section) => [`### ${section.heading}`, section.spots]),
  ];
  return `${paragraphs.join("\n\n")}\n`;
}
