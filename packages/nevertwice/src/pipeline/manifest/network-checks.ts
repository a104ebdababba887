/** Checks of a network as a whole, after it was assembled and flattened. */
import type { PortRef } from "../model.ts";
import type { Assembly, Level, PlacedEdge } from "./assembly.ts";
import type { Report } from "./problem.ts";

export function checkNetwork(assembly: Assembly): void {
  checkIds(assembly);
  checkCycles(assembly);
}

/** Checks whose problems may be consequences of other problems. Call it only if there are none so far. */
export function checkWiring(assembly: Assembly, report: Report): void {
  checkWayIn(assembly, report);
  for (const level of assembly.levels) checkLoosePorts(level);
  checkReplies(assembly);
}

function checkWayIn({ nodes, in: exposed }: Assembly, report: Report): void {
  const hasSource = [...nodes.values()].some(({ model }) => model.kind === "source");
  if (hasSource || exposed.size > 0) return;
  report(
    ["network"],
    "no message can enter the network",
    'add a source, or expose an in-port: [expose.in] orders = "charge.in"',
  );
}

/** A message for an unconnected out-port would be lost, and a node with an unconnected in-port could wait forever. */
function checkLoosePorts({ members, edges, in: exposedIn, out: exposedOut, report }: Level): void {
  const named = (refs: Iterable<PortRef>) => new Set([...refs].map((ref) => JSON.stringify(ref)));
  const fed = named([...edges.map(({ to }) => to), ...[...exposedIn.values()].map(({ ref }) => ref)]);
  const read = named([...edges.map(({ from }) => from), ...[...exposedOut.values()].map(({ ref }) => ref)]);
  for (const [name, member] of members) {
    for (const [port, { ref }] of member.in)
      if (!fed.has(JSON.stringify(ref)))
        report(
          ["nodes", name],
          `no edge leads to ${name}.${port}`,
          `add an edge with to = "${name}.${port}", or expose it: [expose.in] ${port} = "${name}.${port}"`,
        );
    for (const [port, { ref }] of member.out)
      if (!read.has(JSON.stringify(ref)))
        report(
          ["nodes", name],
          `no edge reads ${name}.${port}`,
          `add an edge with from = "${name}.${port}", or expose it: [expose.out] ${port} = "${name}.${port}"`,
        );
  }
}

/** Two uses of one file are two nodes. Two files with the same id are probably a copy whose id was not changed. */
function checkIds({ nodes }: Assembly): void {
  const owners = new Map<string, { identity: unknown; file: string }>();
  for (const { model, document, report, path } of nodes.values()) {
    const owner = owners.get(model.id);
    if (owner === undefined) owners.set(model.id, document);
    else if (owner.identity !== document.identity && model.id !== "")
      report(
        path,
        `${document.file} and ${owner.file} both have the id "${model.id}"`,
        "give one of them another id",
      );
  }
}

/**
 * A cycle is refused. A message is settled when everything emitted from it has ended, which in a cycle may never happen.
 * Bounded buffers in a cycle can also wait for each other forever.
 */
function checkCycles({ nodes, edges }: Assembly): void {
  const next = edgesFrom(edges);
  const trail: string[] = [];
  const done = new Set<string>();
  const visit = (node: string, by?: PlacedEdge) => {
    const start = trail.indexOf(node);
    if (start >= 0)
      by?.report(
        by.path,
        `${[...trail.slice(start), node].join(" → ")} is a cycle`,
        "remove this edge; to repeat work, let the sender push the message again",
      );
    if (start >= 0 || done.has(node)) return;
    trail.push(node);
    for (const edge of next.get(node) ?? []) visit(edge.to.node, edge);
    trail.pop();
    done.add(node);
  };
  for (const node of nodes.keys()) visit(node);
}

/** A caller gets at most one reply, and only a caller at an exposed in-port waits for one. */
function checkReplies({ nodes, edges, in: exposed }: Assembly): void {
  const next = edgesFrom(edges);
  const called = reachable(
    [...exposed.values()].map(({ ref }) => ref.node),
    next,
  );
  for (const [name, { model, report, path }] of nodes) {
    if (!model.reply) continue;
    if (!called.has(name))
      report(
        path,
        `${name} replies, but no exposed in-port leads to it`,
        "remove reply from its [node], or expose a port that leads there: [expose.in]",
      );
    const after = reachable(
      (next.get(name) ?? []).map(({ to }) => to.node),
      next,
    );
    const second = [...after].find((other) => other !== name && nodes.get(other)?.model.reply);
    if (second !== undefined)
      report(
        path,
        `${name} replies, and so does ${second}, which comes after it`,
        "give only one of them reply = true",
      );
  }
}

type Next = ReadonlyMap<string, readonly PlacedEdge[]>;

function edgesFrom(edges: readonly PlacedEdge[]): Next {
  const next = new Map<string, PlacedEdge[]>();
  for (const edge of edges) next.set(edge.from.node, [...(next.get(edge.from.node) ?? []), edge]);
  return next;
}

function reachable(from: readonly string[], next: Next): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [...from];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (found.has(node)) continue;
    found.add(node);
    open.push(...(next.get(node) ?? []).map(({ to }) => to.node));
  }
  return found;
}
