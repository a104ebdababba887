/** A chart of horizontal bars in groups, as SVG. Its colours follow the scheme of the reader, light or dark. */

/**
 * @typedef {{ name: string, value: number, label: string, tone: "ours" | "peer" | "limit" }} Bar
 * @typedef {{ title: string, bars: readonly Bar[] }} Group its bars have one scale
 */

const WIDTH = 760;
const NAMES = 190;
const LABELS = 150;
const BAR = 20;
const GAP = 6;
const GROUP_GAP = 22;
const TITLE = 24;
const TOP = 52;

const STYLE = `
  .paper { fill: #ffffff; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .group { font-weight: 600; }
  .value { font-variant-numeric: tabular-nums; }
  .ours { fill: #0969da; }
  .peer { fill: #8c959f; }
  .limit { fill: #bf8700; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; }
    text { fill: #e6edf3; }
    .ours { fill: #4493f8; }
    .peer { fill: #7d8590; }
    .limit { fill: #d29922; }
  }`;

/** @param {{ title: string, description: string, groups: readonly Group[] }} chart */
export function barChart({ title, description, groups }) {
  let y = TOP;
  const parts = groups.map(({ title: name, bars }) => {
    const most = Math.max(...bars.map(({ value }) => value));
    const lines = [`<text class="group" x="16" y="${y + 14}">${xml(name)}</text>`];
    y += TITLE;
    for (const bar of bars) {
      const width = Math.max(2, Math.round(((WIDTH - NAMES - LABELS) * bar.value) / most));
      lines.push(
        `<text x="${NAMES - 10}" y="${y + 15}" text-anchor="end">${xml(bar.name)}</text>`,
        `<rect class="${bar.tone}" x="${NAMES}" y="${y}" width="${width}" height="${BAR}" rx="3"/>`,
        `<text class="value" x="${NAMES + width + 8}" y="${y + 15}">${xml(bar.label)}</text>`,
      );
      y += BAR + GAP;
    }
    y += GROUP_GAP - GAP;
    return lines.join("\n");
  });
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img" aria-labelledby="title description">`,
    `<title id="title">${xml(title)}</title>`,
    `<desc id="description">${xml(description)}</desc>`,
    `<style>${STYLE}\n</style>`,
    `<rect class="paper" width="${WIDTH}" height="${y}" rx="8"/>`,
    `<text class="title" x="16" y="30">${xml(title)}</text>`,
    ...parts,
    "</svg>",
  ].join("\n")}\n`;
}

/** @param {string} text */
function xml(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
