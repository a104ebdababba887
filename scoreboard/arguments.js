/** Reads the arguments of `npm run scoreboard`. */
import { parseArgs } from "node:util";

export function parseScoreboardArguments(words, { libraries, scenarios }) {
  const { values } = parseArgs({
    args: words,
    options: {
      library: { type: "string", multiple: true, default: [] },
      scenario: { type: "string", multiple: true, default: [] },
      backlog: { type: "string" },
    },
  });
  const wantedLibraries = values.library.flatMap((each) => each.split(","));
  const wantedScenarios = values.scenario.flatMap((each) => each.split(",")).map(Number);
  // "steadykey" means all of its rows.
  const chosen = libraries.filter(
    ({ name }) => wantedLibraries.length === 0 || wantedLibraries.some((each) => isNamed(name, each)),
  );
  for (const each of wantedLibraries)
    if (!libraries.some(({ name }) => isNamed(name, each)))
      throw new Error(
        `There is no library ${each}. The libraries are ${libraries.map(({ name }) => name).join(", ")}.`,
      );
  for (const each of wantedScenarios)
    if (!scenarios.some(({ number }) => number === each))
      throw new Error(`There is no scenario ${each}. The scenarios are 1 to ${scenarios.length}.`);
  return {
    libraries: chosen,
    scenarios: scenarios.filter(
      ({ number }) => wantedScenarios.length === 0 || wantedScenarios.includes(number),
    ),
    ...(values.backlog !== undefined && { backlog: Number(values.backlog) }),
    isWhole: wantedLibraries.length === 0 && wantedScenarios.length === 0,
  };
}

function isNamed(name, wanted) {
  return name === wanted || name.startsWith(`${wanted}-`);
}
