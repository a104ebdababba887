/** What coverage needs to know of a run: each fact once, as a line of JSON, so that a file of a long run stays small. */
import { appendFileSync } from "node:fs";
import type { PipelineEvent } from "../pipeline-event.ts";

/** One thing that happened at least once. */
export interface CoverageFact {
  /** The id of the network. */
  readonly network: string;
  /**
   * What happened: an entered port, a run node, an emitting port, a used effect, a failure, a recognised
   * duplicate.
   */
  readonly fact: "entered" | "ran" | "emitted" | "effect" | "failed" | "duplicate";
  /** Undefined for `entered`. */
  readonly node?: string;
  /** An exposed in-port, or the out-port of a node. */
  readonly port?: string;
  /** The axis of an effect. */
  readonly axis?: string;
  /** The host or the database of an effect. */
  readonly target?: string;
  /** What the effect did: a method, or an action on a table. */
  readonly action?: string;
  /** Why the node failed. */
  readonly reason?: string;
}

/** More facts than any network has; a shell may reach any number of hosts. */
const MAX_FACTS = 10_000;

/**
 * For the option `onEvent`: appends what happened to a file, for `nevertwice pipeline coverage`. Several runs and processes
 * may share the file. Throws if the file cannot be written.
 */
export function recordCoverage(file: string): (event: PipelineEvent) => void {
  appendFileSync(file, "");
  const known = new Set<string>();
  return (event) => {
    for (const fact of toFacts(event)) {
      const line = JSON.stringify(fact);
      if (known.has(line) || known.size >= MAX_FACTS) continue;
      known.add(line);
      appendFileSync(file, `${line}\n`);
    }
  };
}

function toFacts(event: PipelineEvent): readonly CoverageFact[] {
  const { network } = event;
  switch (event.kind) {
    case "entered":
      return [{ network, fact: "entered", node: event.node, port: event.port }];
    case "started":
      return [{ network, fact: "ran", node: event.node }];
    case "completed":
      return event.ports.map((port) => ({ network, fact: "emitted", node: event.node, port }));
    case "dead-lettered":
      return [{ network, fact: "emitted", node: event.node, port: event.port }];
    case "effect-used": {
      const { node, axis, target, action } = event;
      return [{ network, fact: "effect", node, axis, ...(target && { target }), ...(action && { action }) }];
    }
    case "failed":
    case "retrying":
      return [{ network, fact: "failed", node: event.node, reason: event.reason }];
    case "duplicate":
    case "recovered":
      return [{ network, fact: "duplicate", node: event.node }];
    default:
      return [];
  }
}
