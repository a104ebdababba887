/** A network as a Mermaid flowchart, which GitHub, GitLab and most wikis render. */
import type { Edge, Kind, NetworkModel, NodeModel, PortRef } from "./model.ts";

/** The brackets around a label, by kind of node. */
const SHAPES: Readonly<Record<Kind, readonly [open: string, close: string]>> = {
  source: ["([", "])"],
  transform: ["[", "]"],
  router: ["{", "}"],
  sink: ["[[", "]]"],
};

export function drawGraph({ nodes, edges, exposed }: NetworkModel): string {
  // A node may have the name of a Mermaid keyword (`end`), so nodes get generated ids.
  const ids = new Map([...nodes.keys()].map((name, index) => [name, `n${index + 1}`]));
  const nodeId = ({ node }: PortRef) => ids.get(node) ?? "";
  const ports = { in: [...exposed.in], out: [...exposed.out] };
  return [
    "flowchart LR",
    ...groupLines([...nodes.values()], "", ids, "  "),
    ...ports.in.map(([name], index) => `  in${index + 1}((${label(name)}))`),
    ...ports.out.map(([name], index) => `  out${index + 1}((${label(name)}))`),
    ...ports.in.map(([, ref], index) => arrow(`in${index + 1}`, ref.port, nodeId(ref))),
    ...edges.map((edge) => arrow(nodeId(edge.from), edgeText(edge), nodeId(edge.to))),
    ...ports.out.map(([, ref], index) => arrow(nodeId(ref), ref.port, `out${index + 1}`)),
    "",
  ].join("\n");
}

/** The nodes of one network, with the networks that it uses as nested groups. */
function groupLines(
  nodes: readonly NodeModel[],
  prefix: string,
  ids: ReadonlyMap<string, string>,
  indent: string,
): string[] {
  const groups = new Map<string, NodeModel[]>();
  const lines: string[] = [];
  for (const node of nodes) {
    const [group = "", ...inner] = node.name.slice(prefix.length).split("/");
    if (inner.length > 0) groups.set(group, [...(groups.get(group) ?? []), node]);
    else lines.push(`${indent}${ids.get(node.name)}${nodeText(node, group)}`);
  }
  // A group may begin with the same node as the group inside it; the depth makes the ids differ.
  const depth = prefix.split("/").length;
  for (const [group, members] of groups) {
    const [first] = members;
    lines.push(`${indent}subgraph g${first && ids.get(first.name)}_${depth}[${label(group)}]`);
    lines.push(...groupLines(members, `${prefix}${group}/`, ids, `${indent}  `), `${indent}end`);
  }
  return lines;
}

function nodeText({ kind, contract: { idempotency } }: NodeModel, name: string): string {
  const [open, close] = SHAPES[kind];
  const text = idempotency === undefined ? name : `${name}\nkey: ${idempotency.fields.join(", ")}`;
  return `${open}${label(text)}${close}`;
}

function edgeText({ from, to }: Edge): string {
  return from.port === to.port ? from.port : `${from.port} → ${to.port}`;
}

function arrow(from: string, text: string, to: string): string {
  return `  ${from} -->|${label(text)}| ${to}`;
}

function label(text: string): string {
  const escaped = text.replace(/[#"<>]/g, (sign) => `#${sign.charCodeAt(0)};`);
  return `"${escaped.replace(/\n/g, "<br/>")}"`;
}
