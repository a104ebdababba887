/** `nevertwice pipeline`: everything that a developer does with a network, from its first files to its runs. */
import { isNevertwiceError } from "nevertwice";
import { type Definition, loadPipeline, manifestProblems, problemText } from "nevertwice/pipeline";
import {
  type Command,
  type CommandCall,
  type CommandResult,
  EXIT,
  JSON_FLAG,
  UsageError,
  wholeNumber,
} from "./command.ts";
import { counted } from "./pipeline/counted.ts";
import { COVERAGE_FLAGS, coverPipeline } from "./pipeline/coverage.ts";
import { lintAction } from "./pipeline/lint.ts";
import { newAction } from "./pipeline/new.ts";
import { runPipeline } from "./pipeline/run.ts";

export const pipelineCommand: Command = {
  summary: "write, validate, lint, draw and run networks of nodes, and measure what runs covered",
  actions: {
    new: newAction,
    validate: {
      summary:
        "Validates the manifest of a network and those it uses, and prints each problem with file, line and fix.",
      takes: ["FILE"],
      flags: JSON_FLAG,
      run: validate,
    },
    lint: lintAction,
    graph: {
      summary: "Prints the network as a Mermaid flowchart.",
      takes: ["FILE"],
      flags: JSON_FLAG,
      run: graph,
    },
    run: {
      summary:
        "Pushes each line of standard input (JSON) into the network, and prints its output and the result of each line.",
      takes: ["FILE"],
      flags: {
        in: { value: "PORT", what: "the exposed in-port; optional if there is only one" },
        store: {
          value: "URL",
          what: "URL of the store for claims and outcomes",
          default: "sqlite:./nevertwice.db",
        },
        namespace: { value: "NAME", what: "separates the keys of this application from others in the store" },
        tries: { value: "N", what: "the most tries of a line", default: "5" },
        listen: {
          value: "HOST:PORT",
          what: "serve the dashboard on this address, also after the end of the input, until a signal",
        },
        record: { value: "FILE", what: "append what happened to this file, for pipeline coverage" },
        ...JSON_FLAG,
      },
      notes: [
        "Stops at the end of the input, unless --listen is given. SIGTERM and SIGINT finish the running messages first.",
      ],
      showsProgress: true,
      run,
    },
    coverage: {
      summary:
        "Compares the network with recorded runs: nodes, routes, effects, kinds of errors, and duplicates.",
      takes: ["FILE"],
      flags: COVERAGE_FLAGS,
      run: coverage,
    },
  },
};

async function validate(call: CommandCall): Promise<CommandResult> {
  const [file = ""] = call.args;
  const loaded = await load(file);
  if ("problems" in loaded) return invalid(file, loaded.problems);
  const network = loaded.definition.describe();
  const { id, version, nodes, edges } = network;
  return {
    data: { valid: true, network },
    lines: [
      `${file}: ${id} ${version}, ${counted(nodes.length, "node")}, ${counted(edges.length, "edge")}; valid`,
    ],
  };
}

async function graph(call: CommandCall): Promise<CommandResult> {
  const [file = ""] = call.args;
  const loaded = await load(file);
  if ("problems" in loaded) return invalid(file, loaded.problems);
  const mermaid = loaded.definition.graph().trimEnd();
  return { data: { mermaid }, lines: [mermaid] };
}

async function run(call: CommandCall): Promise<CommandResult> {
  const tries = wholeNumber(call, "tries", 1) as number;
  const [file = ""] = call.args;
  const loaded = await load(file);
  if ("problems" in loaded) return invalid(file, loaded.problems);
  const { definition } = loaded;
  return runPipeline(definition, {
    port: choosePort(definition, call.text("in")),
    store: call.text("store") as string,
    namespace: call.text("namespace"),
    tries,
    listen: call.text("listen"),
    record: call.text("record"),
    json: call.has("json"),
  });
}

async function coverage(call: CommandCall): Promise<CommandResult> {
  const [file = ""] = call.args;
  const loaded = await load(file);
  return "problems" in loaded ? invalid(file, loaded.problems) : coverPipeline(loaded.definition, call);
}

type Problems = ReturnType<typeof manifestProblems>;

/** The network, or the problems of its manifests. */
async function load(
  file: string,
): Promise<{ readonly definition: Definition } | { readonly problems: Problems }> {
  try {
    return { definition: await loadPipeline(file) };
  } catch (error) {
    if (!isNevertwiceError(error, "manifest-invalid")) throw error;
    return { problems: manifestProblems(error) };
  }
}

function invalid(file: string, problems: Problems): CommandResult {
  return {
    exit: EXIT.failed,
    data: { valid: false, problems },
    lines: [],
    remarks: [
      ...problems.map((problem) => problemText(problem)),
      `${file}: not valid, ${counted(problems.length, "problem")}`,
    ],
  };
}

/** Undefined for a network without an in-port, whose messages come from its sources. */
function choosePort({ model }: Definition, asked: string | undefined): string | undefined {
  const ports = [...model.exposed.in.keys()];
  if (asked !== undefined && !ports.includes(asked))
    throw new UsageError(
      `unknown in-port ${JSON.stringify(asked)}; the network has ${ports.join(", ") || "none"}.`,
    );
  if (asked === undefined && ports.length > 1)
    throw new UsageError(
      `the network has several in-ports; choose one with --in ${ports.join(" or --in ")}.`,
    );
  return asked ?? ports[0];
}
