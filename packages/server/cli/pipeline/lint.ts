/** `nevertwice pipeline lint`: one line for each finding, and a verdict. */
import { type LintFinding, lintPipeline } from "nevertwice/pipeline";
import { type Action, type CommandCall, type CommandResult, EXIT, JSON_FLAG } from "../command.ts";
import { counted } from "./counted.ts";

export const lintAction: Action = {
  summary:
    "Checks the manifests and the text of the handlers of a network or a node, and prints each finding.",
  takes: ["FILE"],
  flags: JSON_FLAG,
  run,
};

async function run(call: CommandCall): Promise<CommandResult> {
  const [file = ""] = call.args;
  const { nodes, findings } = await lintPipeline(file);
  const isClean = findings.length === 0;
  const verdict = isClean
    ? `${file}: ${counted(nodes, "node")}, no findings`
    : `${file}: ${counted(findings.length, "finding")}`;
  return {
    exit: isClean ? EXIT.ok : EXIT.failed,
    data: { nodes, findings },
    lines: [...findings.map(findingText), verdict],
  };
}

/** `charge.js:12: direct-effect: the shell …; use effects.http.` */
function findingText({ file, line, rule, problem, fix }: LintFinding): string {
  return `${line === undefined ? file : `${file}:${line}`}: ${rule}: ${problem}; ${fix}.`;
}
