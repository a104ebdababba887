/** Effects for one try of a node: what its manifest declares is handed out, all else is denied. */
import { randomUUID } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { allowedFetch } from "./allowed-fetch.ts";
import type { Bell } from "./bell.ts";
import type { Effects } from "./effects.ts";
import type { Axis, NodeModel } from "./model.ts";

/** What effects are made of. */
export interface EffectParts {
  readonly fetch: typeof fetch;
  readonly databases: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Denials that were made here: they are never tried again. */
const denials = new WeakSet<object>();

export function isDenial(error: unknown): boolean {
  return typeof error === "object" && error !== null && denials.has(error);
}

/** Once `over` has rung, the try is over: nothing more can be done in its name. */
export function effectsOf(
  node: NodeModel,
  parts: EffectParts,
  over: Pick<Bell, "throwIfRung" | "signal">,
): Effects {
  function granted(axis: Axis): readonly string[] {
    const effect = node.effects.get(axis);
    if (effect === undefined) throw denied(node, axis, `declare ${axis} under [effects]`);
    over.throwIfRung();
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
          "hand it in with databases when the network is started",
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

/** Fails with `options-invalid` if a database that a node names was not handed in. */
export function checkDatabases(
  nodes: Iterable<NodeModel>,
  databases: Readonly<Record<string, unknown>>,
): void {
  for (const { name, effects } of nodes) {
    for (const database of effects.get("db")?.allow ?? []) {
      if (Object.hasOwn(databases, database)) continue;
      throw new NevertwiceError(
        "options-invalid",
        `databases has no ${JSON.stringify(database)}, which the node ${name} needs: hand it in.`,
      );
    }
  }
}

function denied({ name }: NodeModel, what: string, fix: string): NevertwiceError {
  const error = new NevertwiceError("not-authorized", `the node ${name} may not use ${what}: ${fix}.`);
  denials.add(error);
  return error;
}
