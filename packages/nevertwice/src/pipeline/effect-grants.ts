/** What a node's shell gets as `effects`: what its manifest declares works, everything else throws a denial. */
import { randomBytes, randomUUID } from "node:crypto";
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { allowedFetch } from "./allowed-fetch.ts";
import type { Effects } from "./effects.ts";
import type { Axis, EffectGrant, NodeModel, RandomGrade } from "./model.ts";
import type { StopSignal } from "./stop-signal.ts";

/** The implementations behind the effects. */
export interface EffectSources {
  readonly fetch: typeof fetch;
  readonly databases: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly random: () => number;
}

/** One use of an effect, for events. */
export interface EffectUse {
  readonly axis: Axis;
  /** The host, or the name of the database. */
  readonly target?: string;
  /** The method of the request, or what is done to which table. */
  readonly action?: string;
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
  onUse?: (use: EffectUse) => void,
): Effects {
  function granted(axis: Axis): EffectGrant {
    const effect = node.effects.get(axis);
    if (effect === undefined) throw denied(node, axis, `declare ${axis} under [effects]`);
    over.throwIfFired();
    return effect;
  }

  return {
    get http() {
      return allowedFetch(parts.fetch, granted("http"), over.signal, {
        refuse: (what, fix) => denied(node, `http ${what}`, fix),
        onRequest: (target, action) => onUse?.({ axis: "http", target, action }),
      });
    },
    db(name, access) {
      checkDatabase(node, granted("db"), name, access);
      if (!Object.hasOwn(parts.databases, name))
        throw denied(
          node,
          `db ${JSON.stringify(name)}`,
          "pass it in the databases option when the network is started",
        );
      onUse?.({ axis: "db", target: name, ...(access !== undefined && { action: access }) });
      return parts.databases[name];
    },
    get time() {
      granted("time");
      onUse?.({ axis: "time" });
      return { now: () => parts.clock.now() };
    },
    get random() {
      const { grade } = granted("random");
      onUse?.({ axis: "random" });
      return randomSource(node, parts.random, grade);
    },
  };
}

function checkDatabase(
  node: NodeModel,
  { allow, tables }: EffectGrant,
  name: string,
  access: string | undefined,
): void {
  if (allow.length > 0 && !allow.includes(name))
    throw denied(node, `db ${JSON.stringify(name)}`, "add the name to effects.db.allow");
  if (tables === undefined) return;
  if (access === undefined)
    throw denied(
      node,
      `db ${JSON.stringify(name)} without naming a table`,
      `call effects.db(${JSON.stringify(name)}, ${JSON.stringify(tables[0])})`,
    );
  if (!tables.includes(access))
    throw denied(node, `db ${JSON.stringify(access)}`, "add it to effects.db.tables");
}

const MAX_RANDOM_BYTES = 65_536;

function randomSource(
  node: NodeModel,
  pseudo: () => number,
  grade: RandomGrade | undefined,
): Effects["random"] {
  function secure<T>(what: string, make: () => T): T {
    if (grade !== "pseudo") return make();
    throw denied(node, `random.${what} with the grade "pseudo"`, 'write random = "crypto"');
  }
  return {
    uuid: () => secure("uuid", randomUUID),
    bytes: (count) =>
      secure("bytes", () => {
        if (!Number.isSafeInteger(count) || count < 1 || count > MAX_RANDOM_BYTES)
          throw new RangeError(`random.bytes makes 1 to ${MAX_RANDOM_BYTES} bytes, not ${String(count)}`);
        return new Uint8Array(randomBytes(count));
      }),
    number: () => (grade === "crypto" ? secureNumber() : pseudo()),
  };
}

/** From 0 to below 1, in steps of 2^-48. */
function secureNumber(): number {
  return randomBytes(6).readUIntBE(0, 6) / 2 ** 48;
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
