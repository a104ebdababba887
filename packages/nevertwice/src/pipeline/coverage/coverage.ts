/** Compares what a network declares with what happened in recorded runs. */
import type { Axis, EffectGrant, NetworkModel, NodeModel } from "../model.ts";
import type { CoverageFact } from "./coverage-facts.ts";

/** What coverage is counted of, in the order of reports. */
export const COVERAGE_GROUPS = ["nodes", "routes", "effects", "errors", "duplicates"] as const;

/** How much of one group of things has happened. */
export interface CoverageGroup {
  /** What is counted. */
  readonly name: (typeof COVERAGE_GROUPS)[number];
  /** How many there are in the network. */
  readonly total: number;
  /** How many of them have happened. */
  readonly covered: number;
  /** What did not happen in any run. */
  readonly missing: readonly string[];
}

interface Obligation {
  readonly text: string;
  isMet(facts: readonly CoverageFact[]): boolean;
}

/**
 * Compares a network with what was recorded while it ran. It says for each node, route, effect, failure and
 * duplicate whether it has happened.
 */
export function measureCoverage(
  model: NetworkModel,
  recorded: readonly CoverageFact[],
): readonly CoverageGroup[] {
  const facts = recorded.filter(({ network }) => network === model.id);
  const nodes = [...model.nodes.values()];
  const obligations: Readonly<Record<CoverageGroup["name"], readonly Obligation[]>> = {
    nodes: nodes.map(({ name }) => happened(name, (fact) => fact.fact === "ran" && fact.node === name)),
    routes: routes(model),
    effects: nodes.flatMap(effects),
    errors: nodes.flatMap(errors),
    duplicates: nodes
      .filter(({ contract }) => contract.idempotency !== undefined)
      .map(({ name }) => happened(name, (fact) => fact.fact === "duplicate" && fact.node === name)),
  };
  return COVERAGE_GROUPS.map((name) => {
    const all = obligations[name];
    const missing = all.filter(({ isMet }) => !isMet(facts)).map(({ text }) => text);
    return { name, total: all.length, covered: all.length - missing.length, missing };
  });
}

function happened(text: string, is: (fact: CoverageFact) => boolean): Obligation {
  return { text, isMet: (facts) => facts.some(is) };
}

function routes({ edges, exposed }: NetworkModel): readonly Obligation[] {
  const emitted = (node: string, port: string) => (fact: CoverageFact) =>
    fact.fact === "emitted" && fact.node === node && fact.port === port;
  return [
    ...[...exposed.in].map(([name, to]) =>
      happened(
        `${name} -> ${to.node}.${to.port}`,
        (fact) => fact.fact === "entered" && fact.node === to.node && fact.port === name,
      ),
    ),
    ...edges.map(({ from, to }) =>
      happened(`${from.node}.${from.port} -> ${to.node}.${to.port}`, emitted(from.node, from.port)),
    ),
    ...[...exposed.out].map(([name, from]) =>
      happened(`${from.node}.${from.port} -> ${name}`, emitted(from.node, from.port)),
    ),
  ];
}

function effects({ name, effects: declared }: NodeModel): readonly Obligation[] {
  return [...declared].flatMap(([axis, grant]) => {
    const is = (rest: (fact: CoverageFact) => boolean) => (fact: CoverageFact) =>
      fact.fact === "effect" && fact.node === name && fact.axis === axis && rest(fact);
    const parts = grantParts(axis, grant);
    if (parts.length === 0)
      return [
        happened(
          `${name} ${axis}`,
          is(() => true),
        ),
      ];
    return parts.map(({ text, matches }) => happened(`${name} ${axis} ${text}`, is(matches)));
  });
}

interface GrantPart {
  readonly text: string;
  matches(fact: CoverageFact): boolean;
}

function grantParts(axis: Axis, { allow, methods = [], tables = [] }: EffectGrant): readonly GrantPart[] {
  const targets = allow.map((text) => ({
    text,
    // A host may be called with a port, which the manifest does not name.
    matches: ({ target }: CoverageFact) =>
      target === text || (axis === "http" && target?.replace(/:\d+$/, "") === text.toLowerCase()),
  }));
  const actions = [...methods, ...tables].map((text) => ({
    text,
    matches: ({ action }: CoverageFact) => action === text,
  }));
  return [...targets, ...actions];
}

/** The reasons in `retry.on` that name a kind of error, not one error. */
const GENERAL = ["exception", "error"];

/** The kinds of errors that a node's manifest says something about. */
function errors({ name, in: ports, contract }: NodeModel): readonly Obligation[] {
  const reasons = new Set([
    ...([...ports.values()].some(({ schema }) => schema !== undefined) ? ["schema-mismatch"] : []),
    ...(contract.idempotency === undefined ? [] : ["key-missing"]),
    ...(contract.timeoutMs === undefined ? [] : ["timeout"]),
    ...(contract.retry?.on ?? []),
  ]);
  const ofNode = (fact: CoverageFact) => fact.fact === "failed" && fact.node === name;
  return [...reasons].map((reason) =>
    happened(
      `${name} ${reason}`,
      (fact) =>
        ofNode(fact) &&
        (fact.reason === reason || (GENERAL.includes(reason) && !reasons.has(fact.reason ?? ""))),
    ),
  );
}
