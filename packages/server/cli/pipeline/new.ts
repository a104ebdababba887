/** `nevertwice pipeline new`: writes the files of a network or a node, and never over a file that is there. */
import { access, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { NodeModel } from "nevertwice/pipeline";
import {
  type Action,
  type CommandCall,
  type CommandResult,
  JSON_FLAG,
  Refused,
  UsageError,
} from "../command.ts";
import { networkFiles, nodeFiles, type ScaffoldFiles } from "./scaffold.ts";

const NAME = /^[a-z][a-z\d-]{0,62}$/;
const KINDS: readonly NodeModel["kind"][] = ["source", "transform", "router", "sink"];

export const newAction: Action = {
  summary:
    "Writes the files of a new network, or of a new node: manifest and handlers that run and pass lint.",
  takes: [["network", "node"], "NAME"],
  flags: {
    folder: {
      value: "DIR",
      what: "where to write; for a network a folder NAME if not given, for a node this folder",
    },
    kind: { value: KINDS.join("|"), what: "of a node", default: "transform" },
    ...JSON_FLAG,
  },
  run,
};

async function run(call: CommandCall): Promise<CommandResult> {
  const [what = "", name = ""] = call.args;
  if (!NAME.test(name))
    throw new UsageError(
      `${JSON.stringify(name)} is not a name: use small letters, digits and -, a letter first.`,
    );
  const isNetwork = what === "network";
  if (isNetwork && call.given("kind") !== undefined) throw new UsageError("only a node has a --kind.");
  const folder = call.text("folder") ?? (isNetwork ? name : ".");
  const files = isNetwork ? networkFiles(name) : nodeFiles(name, call.text("kind") as NodeModel["kind"]);
  await write(folder, files);
  const paths = Object.keys(files).map((file) => join(folder, file));
  const manifest = paths[0] as string;
  const next = isNetwork
    ? [
        `nevertwice pipeline lint ${manifest}`,
        `nevertwice pipeline run ${manifest} < ${join(folder, "messages.jsonl")}`,
      ]
    : [`nevertwice pipeline lint ${manifest}`];
  const use = `${name} = { use = "./${name}.node.toml" }`;
  return {
    data: { files: paths, next },
    lines: [
      ...paths.map((path) => `wrote ${path}`),
      ...(isNetwork ? [] : [`use it in the [nodes] of a network: ${use}`]),
      ...next.map((command) => `next: ${command}`),
    ],
  };
}

async function write(folder: string, files: ScaffoldFiles): Promise<void> {
  for (const file of Object.keys(files)) {
    const path = join(folder, file);
    if (await isThere(path)) throw new Refused("exists", `${path} exists already; nothing was written.`);
  }
  await mkdir(folder, { recursive: true });
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder, file), text, { flag: "wx" });
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
