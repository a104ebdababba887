/** Writes docs/scoreboard.md: the table, what each row was given, and the evidence of every verdict. */

const MARKS = { pass: "pass", fail: "**fail**", "not applicable": "n/a" };

export function scoreboardPage({
  libraries,
  scenarios,
  results,
  versionOf,
  commit,
  platform,
  minutes,
  load,
}) {
  const find = (library, scenario) =>
    results.find((each) => each.library.name === library.name && each.scenario.number === scenario.number);
  return `${[
    "# Scoreboard",
    INTRODUCTION,
    `Measured at commit ${commit}. ${platform}. ${results.length} runs in ${minutes.toFixed(0)} minutes, at a load of ${load.toFixed(1)}.`,
    "## Result",
    tallyTable(libraries, scenarios, find),
    "## Every scenario",
    verdictTable(libraries, scenarios, find),
    "## How to run it",
    RUNNING,
    "## What counts",
    RULES,
    "## Settings",
    "Each library has the settings that its documentation recommends, and for a scenario every documented option that helps.",
    settingsTable(libraries, versionOf),
    NOT_INSTALLED,
    "## Evidence",
    ...scenarios.map((scenario) => evidence(libraries, scenario, find)),
  ].join("\n\n")}\n`;
}

const INTRODUCTION = `Written by \`npm run scoreboard\`; do not edit. Thirty situations in which libraries for idempotency have had defects, run against nevertwice
on four stores and against the libraries that npm installs. A scenario is passed, failed, or not applicable with a reason. A failure says
nothing about the quality of a library for what it was made for: read its evidence, and run it yourself.`;

const RUNNING = `\`\`\`sh
npm ci
npm run scoreboard                                      # all, and writes this page
npm run scoreboard -- --library steadykey --scenario 7  # a part, and prints what happened
\`\`\`

The peers are pinned in \`scoreboard/package.json\` and installed outside of the workspace. Redis and Postgres are started for the run, and stopped.
\`scoreboard/scenarios/\` has the scenarios, and \`scoreboard/libraries/\` how each library is called.`;

const RULES = `- Each scenario runs in a process of its own, with a deadline, on an empty database of its own.
- On a busy machine, leases and the pauses between calls are up to four times as long, for all libraries.
- Effects are counted outside of the libraries: each one is a line of a file, flushed before the work goes on, in a file without any constraint.
- A lost owner is a process killed with SIGKILL. A store in memory ends with its process, so there the owner is a handler that never returns.
- The network fails in a TCP proxy in front of the server. For a store without a server, a wrapper around its methods fails.
- Clients of the libraries retry as their documentation says. Where a library has no wait of its own, its caller asks again every 100 ms.
- A scenario about HTTP needs an HTTP layer. Libraries that only have one are called through it in all other scenarios too.
- Scenario 14 accepts a replay without any \`Set-Cookie\`, since a cookie belongs to one client; nevertwice leaves them out.
- A library that is not on DynamoDB, Redis or Postgres has fewer ways to fail: compare rows on the same kind of store.`;

const NOT_INSTALLED = `**Not measured.** \`npm install\` did not find these packages where this page was made, so nothing is said about them: \`@node-idempotency/express\`
and \`@node-idempotency/fastify\` (their core and their plugin for Nest are measured), \`hono-idempotency\`, \`@nestarc/idempotency\`, \`@idempot/core\`,
\`@sabeesoft/idempotix-core\`, \`express-idempotency-middleware\`, \`universal-idempotent-request\`, \`@reaatech/idempotency-middleware\` and
\`@idempotent-transformer/core\`.`;

function tallyTable(libraries, scenarios, find) {
  const rows = libraries.map((library) => {
    const verdicts = scenarios.map((scenario) => find(library, scenario).verdict);
    const count = (verdict) => verdicts.filter((each) => each === verdict).length;
    return [library.title, count("pass"), count("fail"), count("not applicable")];
  });
  return table(["library and store", "passed", "failed", "not applicable"], rows);
}

function verdictTable(libraries, scenarios, find) {
  const letters = libraries.map((_, i) => String.fromCharCode(65 + i));
  const key = libraries.map(({ title }, i) => `${letters[i]} ${title}`).join(" · ");
  const rows = scenarios.map((scenario) => [
    `[${scenario.number}](#${anchor(scenario)})`,
    scenario.title,
    ...libraries.map((library) => MARKS[find(library, scenario).verdict]),
  ]);
  return `${key}\n\n${table(["", "scenario", ...letters], rows)}`;
}

function settingsTable(libraries, versionOf) {
  const rows = libraries.map(({ title, packages, settings, documentation }) => [
    title,
    packages.map((name) => `${name} ${versionOf(name)}`).join(", "),
    settings,
    `[documentation](${documentation})`,
  ]);
  return table(["row", "versions", "settings", ""], rows);
}

function evidence(libraries, scenario, find) {
  const lines = libraries.map((library) => {
    const { verdict, evidence: text, unhandled } = find(library, scenario);
    const also =
      unhandled === undefined ? "" : ` (the process also had an unhandled rejection: ${plain(unhandled)})`;
    return `- ${library.title}: ${MARKS[verdict]}. ${plain(shorten(text))}${also}`;
  });
  return `### ${heading(scenario)}\n\n${lines.join("\n")}`;
}

const heading = ({ number, title }) => `${number}. ${title}`;

/** As Markdown renderers derive it from a heading. */
function anchor(scenario) {
  return heading(scenario)
    .toLowerCase()
    .replace(/[^\w\s-]/g, "")
    .replace(/ /g, "-");
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** Ports and the ids of fences change with each run, and say nothing. */
function shorten(text) {
  const stable = text.replace(/127\.0\.0\.1:\d+/g, "127.0.0.1").replace(/fence \d+/g, "its fence");
  return stable.length <= 420 ? stable : `${stable.slice(0, 420)} …`;
}

/** Evidence is text of libraries, which is not Markdown. */
function plain(text) {
  return text.replace(/[\\`*_<>|[\]]/g, "\\$&").replace(/\s+/g, " ");
}
