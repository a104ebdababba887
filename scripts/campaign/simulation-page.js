/**
 * The page of the simulated schedules. It is also the campaign's memory: a campaign that was stopped goes on after the
 * last seed that the page lists for the same engine.
 */

/**
 * @typedef {object} Part seeds that ran without a broken promise
 * @property {string} engine of what code: the first twelve digits of a digest of the sources
 * @property {string} commit
 * @property {number} firstSeed
 * @property {number} lastSeed
 * @property {number} events
 */

const ROW =
  /^\| `(?<engine>[0-9a-f]+)` \| (?<commit>\S+) \| (?<first>[\d,]+) \| (?<last>[\d,]+) \| (?<events>[\d,]+) \|$/;

/**
 * @param {string} page
 * @returns {Part[]}
 */
export function partsOf(page) {
  return page.split("\n").flatMap((line) => {
    const row = ROW.exec(line)?.groups;
    if (row === undefined) return [];
    return [
      {
        engine: String(row.engine),
        commit: String(row.commit),
        firstSeed: numberOf(row.first),
        lastSeed: numberOf(row.last),
        events: numberOf(row.events),
      },
    ];
  });
}

/**
 * @param {readonly Part[]} parts
 * @param {string} engine
 */
export function schedulesOf(parts, engine) {
  return parts
    .filter((part) => part.engine === engine)
    .reduce((sum, { firstSeed, lastSeed }) => sum + lastSeed - firstSeed + 1, 0);
}

/**
 * @param {readonly Part[]} parts
 * @param {string} engine
 */
export function nextSeed(parts, engine) {
  return Math.max(0, ...parts.filter((part) => part.engine === engine).map(({ lastSeed }) => lastSeed)) + 1;
}

/**
 * Adds a part; one that follows the last row without a gap, on the same commit, becomes part of that row.
 * @param {readonly Part[]} parts
 * @param {Part} part
 * @returns {Part[]}
 */
export function withPart(parts, part) {
  const last = parts.at(-1);
  const follows =
    last?.engine === part.engine && last.commit === part.commit && last.lastSeed + 1 === part.firstSeed;
  if (last === undefined || !follows) return [...parts, part];
  return [...parts.slice(0, -1), { ...last, lastSeed: part.lastSeed, events: last.events + part.events }];
}

/** The engine on one of two stores, or the doors around it. @typedef {"memory" | "etcd" | "doors"} Simulated */

/** @type {Readonly<Record<Simulated, { title: string, command: string, runs: string, sources: string }>>} */
const TEXTS = {
  memory: {
    title: "Simulated schedules",
    command: "npm run campaign -- simulation",
    runs: "The real engine runs under virtual time",
    sources: "`core/` and the simulation itself",
  },
  etcd: {
    title: "Simulated schedules on etcd",
    command: "npm run campaign -- simulation --store etcd",
    runs: "The real engine and the real etcd store run under virtual time on a model of etcd's transactions, each process with a wall clock of its own that is wrong by minutes",
    sources: "`core/`, the etcd store, the model and the simulation itself",
  },
  doors: {
    title: "Simulated schedules of the doors",
    command: "npm run campaign -- simulation --doors",
    runs: "The HTTP exchange, consumers, the claims API, sagas, the relay of an outbox and pipelines, in turn, run under virtual time with clients and brokers that send again",
    sources: "the doors, `core/` and the simulation itself",
  },
};

/**
 * @param {readonly Part[]} parts
 * @param {{ engine: string, platform: string, subject?: Simulated }} of
 */
export function simulationPage(parts, { engine, platform, subject = "memory" }) {
  const { title, command, runs, sources } = TEXTS[subject];
  const schedules = schedulesOf(parts, engine);
  const rows = parts.map(
    (part) =>
      `| \`${part.engine}\` | ${part.commit} | ${textOf(part.firstSeed)} | ${textOf(part.lastSeed)} | ${textOf(part.events)} |`,
  );
  return `# ${title}

Written by \`${command}\`; do not edit. ${runs}: crashes, pauses past the
lease, lost and late replies, clocks that jump in both directions, outages. A schedule is drawn from its seed, which replays it:
\`${command} --seed S --schedules 1\`. The campaign stops at the first broken promise, so every listed
seed kept all of them. "Engine" is a digest of the sources that ran (${sources}).

Engine \`${engine}\`: **${textOf(schedules)} schedules, 0 broken promises**. By the rule of three, fewer than
${(3 / schedules).toExponential(1)} of such schedules break one (95 % confidence).

| engine | commit | first seed | last seed | events |
| --- | --- | ---: | ---: | ---: |
${rows.join("\n")}

${platform}.
`;
}

/** @param {number} value */
function textOf(value) {
  return value.toLocaleString("en");
}

/** @param {string | undefined} text */
function numberOf(text) {
  return Number(String(text).replaceAll(",", ""));
}
