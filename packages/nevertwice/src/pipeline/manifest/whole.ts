/** What can be wrong only with a network as a whole, once its nodes are laid out flat. */
import type { PortRef } from "../model.ts";
import type { Assembly, Level, PlacedEdge } from "./assembly.ts";
import type { Report } from "./problem.ts";

export function checkWhole(assembly: Assembly): void {
  checkIds(assembly);
  checkCircles(assembly);
}

/** What another problem could be the cause of, so that it is looked for only when there is none. */
export function checkConsequences(assembly: Assembly, report: Report): void {
  checkWayIn(assembly, report);
  for (const level of assembly.levels) checkLoosePorts(level);
  checkReplies(assembly);
}

function checkWayIn({ nodes, in: exposed }: Assembly, report: Report): void {
  const hasSource = [...nodes.values()].some(({ model }) => model.kind === "source");
  if (hasSource || exposed.size > 0) return;
  report(
    ["network"],
    "no message can come in",
    'add a source, or expose an in-port: [expose.in] orders = "charge.in"',
  );
}

/** What is sent to a port that nobody reads is lost, and what waits at one that nobody feeds waits for ever. */
function checkLoosePorts({ members, edges, in: exposedIn, out: exposedOut, report }: Level): void {
  const named = (refs: Iterable<PortRef>) => new Set([...refs].map((ref) => JSON.stringify(ref)));
  const fed = named([...edges.map(({ to }) => to), ...[...exposedIn.values()].map(({ ref }) => ref)]);
  const read = named([...edges.map(({ from }) => from), ...[...exposedOut.values()].map(({ ref }) => ref)]);
  for (const [name, member] of members) {
    for (const [port, { ref }] of member.in)
      if (!fed.has(JSON.stringify(ref)))
        report(
          ["nodes", name],
          `nothing comes to ${name}.${port}`,
          `add an edge with to = "${name}.${port}", or expose it: [expose.in] ${port} = "${name}.${port}"`,
        );
    for (const [port, { ref }] of member.out)
      if (!read.has(JSON.stringify(ref)))
        report(
          ["nodes", name],
          `nobody reads ${name}.${port}`,
          `add an edge with from = "${name}.${port}", or expose it: [expose.out] ${port} = "${name}.${port}"`,
        );
  }
}

/** Two uses of one file are two nodes; two files with one id are a copy that somebody forgot to rename. */
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
 * A circle is refused: a message is settled when all that came of it is, which in a circle may be never, and bounded
 * buffers that wait for each other stand still.
 */
function checkCircles({ nodes, edges }: Assembly): void {
  const next = edgesFrom(edges);
  const trail: string[] = [];
  const done = new Set<string>();
  const visit = (node: string, by?: PlacedEdge) => {
    const start = trail.indexOf(node);
    if (start >= 0)
      by?.report(
        by.path,
        `${[...trail.slice(start), node].join(" → ")} goes round in a circle`,
        "take this edge out; what has to come again is pushed again by whoever pushed it first",
      );
    if (start >= 0 || done.has(node)) return;
    trail.push(node);
    for (const edge of next.get(node) ?? []) visit(edge.to.node, edge);
    trail.pop();
    done.add(node);
  };
  for (const node of nodes.keys()) visit(node);
}

/** A caller gets one answer, and only a caller at an exposed in-port waits for one. */
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
        `${name} replies, and no exposed in-port leads to it`,
        "take reply out of its [node], or expose a port that leads there: [expose.in]",
      );
    const after = reachable(
      (next.get(name) ?? []).map(({ to }) => to.node),
      next,
    );
    const second = [...after].find((other) => other !== name && nodes.get(other)?.model.reply);
    if (second !== undefined)
      report(
        path,
        `${name} replies, and so does ${second} after it`,
        "let only one of them have reply = true",
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
