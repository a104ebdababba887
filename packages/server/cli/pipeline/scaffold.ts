/** The files that `pipeline new` writes. What it writes runs and passes `pipeline lint`. */
import type { NodeModel } from "nevertwice/pipeline";

export type ScaffoldFiles = Readonly<Record<string, string>>;

/** A network of one node with a key, its schemas, and two messages to try it with. */
export function networkFiles(name: string): ScaffoldFiles {
  return {
    [`${name}.toml`]: `# The network ${name}. Its keys are stored under this id: with another one, all keys are new.

[network]
id = "${name}"
version = "0.1.0"

[schemas]
"Message@1" = "./schemas.mjs#message"

[nodes]
handle = { use = "./handle.node.toml" }

# [[edges]]
# from = "handle.handled"
# to = "another.in"

[expose]
in = { messages = "handle.in" }
out = { handled = "handle.handled" }
`,
    "handle.node.toml": nodeManifest("handle", "transform", { out: "handled", schema: "Message@1" }),
    "handle.mjs": handlers("transform", "handled"),
    "schemas.mjs": `/** @typedef {{ id: string, text: string }} Message */

/** @param {Message} payload */
export const message = (payload) => typeof payload.id === "string" && typeof payload.text === "string";
`,
    "messages.jsonl": `{"id":"m-1","text":"hello"}\n{"id":"m-2","text":"world"}\n`,
  };
}

export function nodeFiles(name: string, kind: NodeModel["kind"]): ScaffoldFiles {
  return {
    [`${name}.node.toml`]: nodeManifest(name, kind, { out: "out" }),
    [`${name}.mjs`]: handlers(kind, "out"),
  };
}

function nodeManifest(
  name: string,
  kind: NodeModel["kind"],
  { out, schema }: { readonly out: string; readonly schema?: string },
): string {
  const port = schema === undefined ? "{}" : `{ schema = "${schema}" }`;
  const isSource = kind === "source";
  return [
    `[node]\nid = "${name}"\nversion = "0.1.0"\nkind = "${kind}"`,
    `[doc]\nintent = "Say what ${name} is for."`,
    ...(isSource ? [] : [`[ports.in]\nin = ${port}`]),
    ...(kind === "sink" ? [] : [`[ports.out]\n${out} = ${port}`]),
    `[contract]\n${[
      ...(isSource ? [] : [`pure_core = "./${name}.mjs#decide"`]),
      `effect_shell = "./${name}.mjs#act"`,
      ...(isSource
        ? []
        : [
            'timeout = "5s"',
            'retry = { strategy = "exponential", max = 3, on = ["timeout"] }',
            'idempotency = { key = "id" }',
          ]),
    ].join("\n")}`,
    "",
  ]
    .join("\n\n")
    .replace(/\n+$/, "\n");
}

function handlers(kind: NodeModel["kind"], out: string): string {
  if (kind === "source")
    return `/**
 * Produces the messages. Acknowledge a broker's message in \`settled\`.
 *
 * @param {import("nevertwice/pipeline").SourceContext} context
 */
export async function* act({ signal }) {
  for (const id of ["m-1", "m-2"]) {
    if (signal.aborted) return;
    yield { id, payload: { id } };
  }
}
`;
  const shell =
    kind === "sink"
      ? `export function act(decided, { deriveKey }) {
  // Give another system this key: it is the same on every attempt.
  void { decided, key: deriveKey("other-system") };
}`
      : `export function act(decided, { emit }) {
  return emit("${out}", decided);
}`;
  return `/** Decides, without side effects: the same payload gives the same decision. */
export function decide(payload) {
  return payload;
}

/**
 * Carries out the decision. Everything that it does to the world goes through \`effects\`, as [effects] declares.
 *
 * @type {(decided: any, context: import("nevertwice/pipeline").ShellContext) => unknown}
 */
${shell}
`;
}
