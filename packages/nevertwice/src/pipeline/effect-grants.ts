/** Grants a try of a node the effects that its manifest declares. Any other effect is denied. */
import { randomUUID } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { allowedFetch } from "./allowed-fetch.ts";
import type { Effects } from "./effects.ts";
import type { Axis, NodeModel } from "./model.ts";
import type { StopSignal } from "./stop-signal.ts";

/** The implementations behind the effects. */
export interface EffectSources {
  readonly fetch: typeof fetch;
  readonly databases: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly random: () => number;
}

/** The denials created in this file. They are never retried. */
const denials = new WeakSet<object>();

export function isDenial(error: unknown): boolean {
  return typeof error === "object" && error !== null && denials.has(error);
}

/** Once `over` has fired, the try is over and its effects throw. */
export function grantEffects(
  node: NodeModel,
  parts: EffectSources,
  over: Pick<StopSignal, "throwIfFired" | "signal">,
): Effects {
  function granted(axis: Axis): readonly string[] {
    const effect = node.effects.get(axis);
    if (effect === undefined) throw denied(node, axis, `declare ${axis} under [effects]`);
    over.throwIfFired();
    return effect.allow;
  }

  return {
    get http() {
      const refuse = (host: string) => denied(node, `http to ${host}`, "add the host to effects.http.allow");
      return allowedFetch(parts.fetch, granted("http"), over.signal, refuse);
    },
    db(name) {
      const allow = granted("db");
      if (allow.length > 0 && !allow.includes(name))
        throw denied(node, `db ${JSON.stringify(name)}`, "add the name to effects.db.allow");
      if (!Object.hasOwn(parts.databases, name))
        throw denied(
          node,
          `db ${JSON.stringify(name)}`,
          "pass it in the databases option when the network is started",
        );
      return parts.databases[name];
    },
    get time() {
      granted("time");
      return { now: () => parts.clock.now() };
    },
    get random() {
      granted("random");
      return { uuid: () => randomUUID(), number: parts.random };
    },
  };
}

/** Throws `options-invalid` if `databases` lacks a database that a node names. */
export function checkDatabases(
  nodes: Iterable<NodeModel>,
  databases: Readonly<Record<string, unknown>>,
): void {
  for (const { name, effects } of nodes) {
    for (const database of effects.get("db")?.allow ?? []) {
      if (Object.hasOwn(databases, database)) continue;
      throw new NevertwiceError(
        "options-invalid",
        `databases has no ${JSON.stringify(database)}, which the node ${name} needs: pass it in the databases option.`,
      );
    }
  }
}

function denied({ name }: NodeModel, what: string, fix: string): NevertwiceError {
  const error = new NevertwiceError("not-authorized", `the node ${name} may not use ${what}: ${fix}.`);
  denials.add(error);
  return error;
}
