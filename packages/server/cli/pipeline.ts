/** `nevertwice pipeline`: checks the manifests of a network, draws it, and runs it on lines of JSON. */
import { isNevertwiceError } from "nevertwice";
import { type Definition, loadPipeline, manifestProblems, problemText } from "nevertwice/pipeline";
import {
  type Call,
  type Command,
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
  summary: "checks, draws and runs networks of nodes from their manifests",
  actions: {
    validate: {
      summary:
        "Reads the network's manifest and those that it uses, and says what is wrong, with file, line and fix.",
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
        "Pushes each line of standard input (JSON) into the network, and prints what leaves it and what became of each line.",
      takes: ["FILE"],
      flags: {
        in: { value: "PORT", what: "the exposed in-port; not needed if there is only one" },
        store: {
          value: "URL",
          what: "where claims and outcomes are kept",
          default: "sqlite:./nevertwice.db",
        },
        namespace: { value: "NAME", what: "sets this application's keys apart from others in the store" },
        tries: { value: "N", what: "how often a line is pushed that is to come back later", default: "5" },
        ...JSON_FLAG,
      },
      notes: ["Stops at the end of the input, or drains on SIGTERM and SIGINT."],
      run,
    },
  },
};

async function validate(call: Call): Promise<Exit> {
  const [file = ""] = call.args;
  const definition = await load(call);
  if (definition === undefined) return EXIT.failed;
  const { id, version, nodes, edges } = definition.describe();
  if (call.has("json")) print(JSON.stringify({ valid: true, network: definition.describe() }));
  else
    print(
      `${file}: ${id} ${version}, ${counted(nodes.length, "node")}, ${counted(edges.length, "edge")}; nothing is wrong`,
    );
  return EXIT.ok;
}

async function graph(call: Call): Promise<Exit> {
  const definition = await load(call);
  if (definition === undefined) return EXIT.failed;
  const mermaid = definition.graph().trimEnd();
  print(call.has("json") ? JSON.stringify({ mermaid }) : mermaid);
  return EXIT.ok;
}

async function run(call: Call): Promise<Exit> {
  const tries = wholeNumber(call, "tries", 1) as number;
  const definition = await load(call);
  if (definition === undefined) return EXIT.failed;
  return runPipeline(definition, {
    port: portOf(definition, call.text("in")),
    store: call.text("store") as string,
    namespace: call.text("namespace"),
    tries,
    json: call.has("json"),
  });
}

/** Undefined if the manifests are wrong, which is said. */
async function load(call: Call): Promise<Definition | undefined> {
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

/** Undefined for a network that takes nothing from outside: its sources bring its messages. */
function portOf({ model }: Definition, asked: string | undefined): string | undefined {
  const ports = [...model.exposed.in.keys()];
  if (asked !== undefined && !ports.includes(asked))
    throw new UsageError(
      `there is no in-port ${JSON.stringify(asked)}; there is ${ports.join(", ") || "none"}.`,
    );
  if (asked === undefined && ports.length > 1)
    throw new UsageError(`there are several in-ports; write --in ${ports.join(" or --in ")}.`);
  return asked ?? ports[0];
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
