/** `nevertwice pipeline`: validates the manifests of a network, draws it, and runs it on lines of JSON. */
import { isNevertwiceError } from "nevertwice";
import { type Definition, loadPipeline, manifestProblems, problemText } from "nevertwice/pipeline";
import {
  type Command,
  type CommandCall,
  complain,
  EXIT,
  type Exit,
  JSON_FLAG,
  print,
  UsageError,
  wholeNumber,
} from "./command.ts";
import { runPipeline } from "./pipeline-run.ts";

export const pipelineCommand: Command = {
  summary: "validate, draw and run networks of nodes from their manifests",
  actions: {
    validate: {
      summary:
        "Validates the manifest of a network and those it uses, and prints each problem with file, line and fix.",
      takes: ["FILE"],
      flags: JSON_FLAG,
      run: validate,
    },
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
        ...JSON_FLAG,
      },
      notes: ["Stops at the end of the input. SIGTERM and SIGINT finish the running messages first."],
      run,
    },
  },
};

async function validate(call: CommandCall): Promise<Exit> {
  const [file = ""] = call.args;
  const definition = await load(call);
  if (definition === undefined) return EXIT.failed;
  const { id, version, nodes, edges } = definition.describe();
  if (call.has("json")) print(JSON.stringify({ valid: true, network: definition.describe() }));
  else
    print(
      `${file}: ${id} ${version}, ${counted(nodes.length, "node")}, ${counted(edges.length, "edge")}; valid`,
    );
  return EXIT.ok;
}

async function graph(call: CommandCall): Promise<Exit> {
  const definition = await load(call);
  if (definition === undefined) return EXIT.failed;
  const mermaid = definition.graph().trimEnd();
  print(call.has("json") ? JSON.stringify({ mermaid }) : mermaid);
  return EXIT.ok;
}

async function run(call: CommandCall): Promise<Exit> {
  const tries = wholeNumber(call, "tries", 1) as number;
  const definition = await load(call);
  if (definition === undefined) return EXIT.failed;
  return runPipeline(definition, {
    port: choosePort(definition, call.text("in")),
    store: call.text("store") as string,
    namespace: call.text("namespace"),
    tries,
    json: call.has("json"),
  });
}

/** Prints the problems and returns undefined if the manifests are invalid. */
async function load(call: CommandCall): Promise<Definition | undefined> {
  const [file = ""] = call.args;
  try {
    return await loadPipeline(file);
  } catch (error) {
    if (!isNevertwiceError(error, "manifest-invalid")) throw error;
    const problems = manifestProblems(error);
    if (call.has("json")) print(JSON.stringify({ valid: false, problems }));
    else for (const problem of problems) complain(problemText(problem));
    return undefined;
  }
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

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
