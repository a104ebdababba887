/** Writes the figures of the trials as a page in bench/results. */

/**
 * @typedef {object} Figures
 * @property {string} trial
 * @property {string} store its name and the settings that decide what it survives
 * @property {string} figures
 */

/** @typedef {{ title: string, campaign: string }} Head */

/**
 * @param {Head} head
 * @param {readonly Figures[]} collected in the order in which they were measured
 * @param {string} platform
 */
export function pageOf({ title, campaign }, collected, platform) {
  const trials = [...new Set(collected.map(({ trial }) => trial))];
  const sections = trials.map((trial) => {
    const rows = collected
      .filter((each) => each.trial === trial)
      .map(({ store, figures }) => `- **${store}**: ${figures}.`);
    return `## ${trial}\n\n${rows.join("\n")}`;
  });
  return `${[
    `# ${title}`,
    `Written by \`npm run campaign -- ${campaign}\`; do not edit. Each trial runs on real servers, and fails if a promise is broken. Where it says so, its processes are killed, paused or cut off. Each store is listed with its settings; the doctor reports which faults they survive.`,
    ...sections,
    `${platform}; servers, clients and trials on one machine.`,
  ].join("\n\n")}\n`;
}
