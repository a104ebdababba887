/** Reads headings, tables and links of Markdown. */

/** @param {string} markdown */
export function codeHeadingsOf(markdown) {
  return [...markdown.matchAll(/^## `([^`]+)`$/gm)].map(([, name = ""]) => name);
}

/**
 * The rows of every table as cells, without the line under the header.
 *
 * @param {string} markdown
 */
export function tableRowsOf(markdown) {
  return markdown
    .split("\n")
    .filter((line) => line.startsWith("|") && !/^\|[\s|:-]+\|$/.test(line))
    .map((line) =>
      line
        .replaceAll("\\|", "\u0000")
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.replaceAll("\u0000", "|").trim()),
    );
}

/**
 * The files that a cell links to, as paths of the repository.
 *
 * @param {string} page
 * @param {string} cell
 */
export function linkedPaths(page, cell) {
  const links = [...cell.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  return links.map((target) => new URL(target, `file:///${page}`).pathname.slice(1));
}

/**
 * The text from the `##` heading of that name to the next one.
 *
 * @param {string} markdown
 * @param {string} heading
 */
export function sectionOf(markdown, heading) {
  const [, ...sections] = markdown.split(/^## /m);
  return sections.find((section) => section.split("\n")[0] === heading);
}

/**
 * The differences between two lists of names, as sentences.
 *
 * @param {string} page
 * @param {string} what
 * @param {readonly string[]} written
 * @param {readonly string[]} meant
 */
export function nameDifferences(page, what, written, meant) {
  return [
    ...meant.filter((name) => !written.includes(name)).map((name) => `${page}: no ${what} for ${name}`),
    ...written
      .filter((name) => !meant.includes(name))
      .map((name) => `${page}: ${what} for ${name}, which does not exist`),
    ...written
      .filter((name, index) => written.indexOf(name) !== index)
      .map((name) => `${page}: ${what} for ${name} twice`),
  ];
}
