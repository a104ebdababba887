/** Reads the `[effects]` of a node: which effects its shell may use, and how far each one goes. */
import { nearest } from "../../core/did-you-mean.ts";
import {
  AXES,
  type Axis,
  type EffectGrant,
  type NodeModel,
  RANDOM_GRADES,
  type RandomGrade,
  TABLE_ACTIONS,
} from "../model.ts";
import { hintsFor, shown, type TableReader } from "./table-reader.ts";

/** A host of a URL, without scheme, port or path. */
const HOST = /^(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)*[a-z\d](?:[a-z\d-]*[a-z\d])?$/i;
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;
/** `charges:insert`, as Bloccs writes the tables of a database. */
const TABLE_ACCESS = /^([^:]+):([^:]+)$/;
/** Words of other tools for the actions of a table. */
const OTHER_ACTIONS: Readonly<Record<string, string>> = {
  ...hintsFor("select", ["read", "get", "all", "one", "query"]),
  ...hintsFor("insert", ["create", "add", "write", "insert_all"]),
  ...hintsFor("update", ["set", "change", "update_all"]),
  ...hintsFor("delete", ["remove", "destroy", "delete_all"]),
};

export function readEffects(manifest: TableReader): NodeModel["effects"] {
  const table = manifest.table("effects");
  const effects = new Map<Axis, EffectGrant>();
  for (const axis of AXES) {
    if (table === undefined || !table.has(axis)) continue;
    const grant = READERS[axis](table);
    if (grant !== undefined) effects.set(axis, grant);
  }
  table?.done({
    ...hintsFor("write http", ["https", "net", "network", "fetch"]),
    ...hintsFor("write db", ["database", "databases", "sql", "ecto"]),
    ...hintsFor("write time", ["clock", "wall_clock", "now"]),
    ...hintsFor("write random", ["rand", "rng", "uuid", "crypto"]),
  });
  return effects;
}

const READERS: Readonly<Record<Axis, (table: TableReader) => EffectGrant | undefined>> = {
  http: readHttp,
  db: readDb,
  time: (table) => readGranted(table, "time"),
  random: readRandom,
};

/** `true` grants the whole axis. The model represents that as an empty list. */
function readGranted(table: TableReader, axis: Axis, others = ""): EffectGrant | undefined {
  const value = table.value(axis);
  if (value === true) return { allow: [] };
  const fix =
    value === "none" || value === false
      ? "leave it out: what is not declared is denied"
      : `write ${axis} = true${others}, or leave it out to deny it`;
  table.wrong(axis, `effects.${axis} is ${shown(value)}`, fix);
  return undefined;
}

function readHttp(table: TableReader): EffectGrant | undefined {
  if (typeof table.value("http") !== "object") return readGranted(table, "http");
  const inner = table.table("http");
  if (inner === undefined) return undefined;
  const allow = readAllow(inner, '["api.example"]');
  const methods = inner.texts("methods", '["POST"]');
  const unknown = methods?.find((method) => !METHODS.some((known) => known === method.toUpperCase()));
  if (unknown !== undefined)
    inner.wrong("methods", `${shown(unknown)} is not a method`, chooseFrom(unknown.toUpperCase(), METHODS));
  inner.done(hintsFor("write allow", ["hosts", "host", "urls"]));
  const odd = allow?.find((host) => !HOST.test(host));
  if (odd !== undefined)
    inner.wrong(
      "allow",
      `${shown(odd)} is not a host`,
      'write the host alone, without scheme, port or path: "api.example"',
    );
  return {
    allow: allow ?? [],
    ...(methods && { methods: methods.map((method) => method.toUpperCase()) }),
  };
}

function readDb(table: TableReader): EffectGrant | undefined {
  if (typeof table.value("db") !== "object") return readGranted(table, "db");
  const inner = table.table("db");
  if (inner === undefined) return undefined;
  const allow = readAllow(inner, '["orders"]');
  const odd = allow?.find((name) => TABLE_ACCESS.test(name));
  if (odd !== undefined)
    inner.wrong(
      "allow",
      `${shown(odd)} is a table with an action, and allow lists databases`,
      `write allow = ["main"], and tables = [${shown(odd)}]`,
    );
  const tables = inner.texts("tables", '["charges:insert"]');
  for (const access of tables ?? []) checkAccess(inner, access);
  inner.done({
    actions: 'write tables = ["charges:insert"]',
    scopes: 'write tables = ["charges:insert"]',
    ...hintsFor("write allow", ["names", "databases", "repo"]),
  });
  return { allow: allow ?? [], ...(tables && { tables }) };
}

function checkAccess(table: TableReader, access: string): void {
  const [, name, action] = TABLE_ACCESS.exec(access) ?? [];
  if (name === undefined || action === undefined) {
    table.wrong(
      "tables",
      `${shown(access)} is not a table with an action`,
      `write e.g. "${access.replaceAll(":", "")}:insert"`,
    );
    return;
  }
  if (TABLE_ACTIONS.some((known) => known === action)) return;
  const meant = OTHER_ACTIONS[action.toLowerCase()];
  const fix =
    action.toLowerCase() === "upsert"
      ? `write "${name}:insert" and "${name}:update"`
      : meant !== undefined
        ? `write "${name}:${meant}"`
        : chooseFrom(action, TABLE_ACTIONS);
  table.wrong("tables", `${shown(access)} has the unknown action ${shown(action)}`, fix);
}

function readRandom(table: TableReader): EffectGrant | undefined {
  const value = table.value("random");
  const grade = RANDOM_GRADES.find((known): known is RandomGrade => known === value);
  if (grade !== undefined) return { allow: [], grade };
  return readGranted(table, "random", ', "pseudo" or "crypto"');
}

function readAllow(table: TableReader, example: string): readonly string[] | undefined {
  const allow = table.texts("allow", example);
  const [axis] = table.path.slice(-1);
  if (!table.has("allow"))
    table.missing("allow", `add allow = ${example}, or write ${axis} = true for all of them`);
  return allow;
}

function chooseFrom(word: string, known: readonly string[]): string {
  const near = nearest(word, known);
  return near === undefined ? `write one of ${known.join(", ")}` : `write "${near}"`;
}
