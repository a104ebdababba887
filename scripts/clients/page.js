/** The parts of docs/clients.md that `npm run test:clients` writes: the setting of each client, and what was measured. */

/** @typedef {{ door: string, fault: string, client: string, effects: number, told: string }} PageCell */

/**
 * @typedef {object} PageReport
 * @property {readonly { name: string, version: string, route: string, needs: string, setting: { language: string, text: string } }[]} clients
 * @property {readonly { name: string, title: string, says: string }[]} faults
 * @property {readonly PageCell[]} cells
 */

/**
 * @param {string} page
 * @param {PageReport} report
 * @returns {string} the page with this report in place of its own
 */
export function withReport(page, report) {
  const parts = { needs: needsText(report), settings: settingsText(report), cells: cellsText(report) };
  return Object.entries(parts).reduce((text, [name, part]) => withPart(text, name, part), page);
}

/**
 * @param {string} page
 * @param {string} run which commit was run, when, and on which machine
 * @returns {string} the page with this run in place of its own
 */
export function withRun(page, run) {
  return withPart(page, "run", `${run}\n`);
}

/** @param {PageReport} report */
function needsText({ clients }) {
  const rows = clients.map(
    ({ name, version, route, needs }) =>
      `| \`${name}\` | ${version} | ${route === "" ? "nothing" : route} | ${needs} |\n`,
  );
  return `| client | tested version | the route needs | the client needs |\n| --- | --- | --- | --- |\n${rows.join("")}`;
}

/** @param {PageReport} report */
function settingsText({ clients }) {
  return clients
    .map(({ name, setting }) => `### ${name}\n\n\`\`\`${setting.language}\n${setting.text}\n\`\`\`\n`)
    .join("\n");
}

/** @param {PageReport} report */
function cellsText({ faults, cells }) {
  const legend = faults.map(({ title, says }) => `| ${title} | ${says} |\n`);
  const doors = [...new Set(cells.map(({ door }) => door))].map((door) => doorText(door, { faults, cells }));
  return `| column | what happens |\n| --- | --- |\n${legend.join("")}\n${doors.join("\n")}`;
}

/**
 * @param {string} door
 * @param {Pick<PageReport, "faults" | "cells">} report
 */
function doorText(door, { faults, cells }) {
  const here = cells.filter((cell) => cell.door === door);
  const columns = faults.filter(({ name }) => here.some(({ fault }) => fault === name));
  const rows = [...new Set(here.map(({ client }) => client))].map((client) => {
    const texts = columns.map(({ name }) => {
      const cell = here.find((one) => one.client === client && one.fault === name);
      return cell === undefined ? "its own key" : `${cell.effects} · ${cell.told}`;
    });
    return `| \`${client}\` | ${texts.join(" | ")} |\n`;
  });
  const titles = columns.map(({ title }) => title);
  return `### ${toHeading(door)}\n\n| client | ${titles.join(" | ")} |\n| --- |${" --- |".repeat(titles.length)}\n${rows.join("")}`;
}

/** @param {string} door */
const toHeading = (door) => `Measured: ${door}`;

/**
 * The cells on the page.
 *
 * @param {string} page
 * @param {PageReport["faults"]} faults
 * @returns {readonly PageCell[]}
 */
export function readCells(page, faults) {
  const sections = findPart(page, "cells")
    .split(`### ${toHeading("")}`)
    .slice(1);
  return sections.flatMap((section) => {
    const [door = "", ...lines] = section.trim().split("\n");
    const [head = [], , ...rows] = lines.filter((line) => line.startsWith("|")).map(splitRow);
    return rows.flatMap(([client = "", ...texts]) =>
      texts.flatMap((text, index) => {
        const fault = faults.find(({ title }) => title === head[index + 1])?.name;
        const [effects, told] = text.split(" · ");
        if (fault === undefined || told === undefined) return [];
        return [{ door, fault, client: client.replaceAll("`", ""), effects: Number(effects), told }];
      }),
    );
  });
}

/** @param {string} line */
function splitRow(line) {
  return line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/**
 * @param {string} page
 * @param {string} name
 */
function bounds(page, name) {
  const open = `<!-- ${name} -->\n`;
  const start = page.indexOf(open);
  const end = page.indexOf(`<!-- end of ${name} -->`);
  if (start === -1 || end < start) throw new Error(`docs/clients.md has no part ${name}`);
  return { start: start + open.length, end };
}

/**
 * @param {string} page
 * @param {string} name
 */
function findPart(page, name) {
  const { start, end } = bounds(page, name);
  return page.slice(start, end);
}

/**
 * @param {string} page
 * @param {string} name
 * @param {string} text
 */
function withPart(page, name, text) {
  const { start, end } = bounds(page, name);
  return `${page.slice(0, start)}\n${text}\n${page.slice(end)}`;
}
