/** The `[config]` of a node: values that its code reads, each with a default, which a network may override for one use. */
import { nearest } from "../../core/did-you-mean.ts";
import { isPlainObject } from "../../core/plain-object.ts";
import type { NodeConfig } from "../model.ts";
import { shown, type TableReader } from "./table-reader.ts";

/** More is data, which belongs in a file or a database that the node reads. */
const MAX_BYTES = 16_384;

/** The defaults. Frozen, since all messages share them. */
export function readConfig(manifest: TableReader): NodeConfig {
  const table = manifest.table("config");
  if (table === undefined) return {};
  const entries = table.keys().map((key) => [key, frozen(table.value(key))] as const);
  const config = Object.fromEntries(entries);
  if (JSON.stringify(config).length > MAX_BYTES)
    manifest.wrong(
      "config",
      `config has more than ${MAX_BYTES} characters`,
      "keep data in a file or a database",
    );
  return Object.freeze(config);
}

/** The values that a network sets for one use. Only declared keys, and only values of the same kind as the default. */
export function overrideConfig(defaults: NodeConfig, given: TableReader): NodeConfig {
  const result: Record<string, unknown> = { ...defaults };
  for (const key of given.keys()) {
    const value = given.value(key);
    if (!Object.hasOwn(defaults, key)) {
      const near = nearest(key, Object.keys(defaults));
      const fix = near === undefined ? `add ${key} to [config] of the node` : `write ${near}`;
      given.wrong(key, `the node has no ${key} in its [config]`, fix);
    } else if (valueKind(value) !== valueKind(defaults[key]))
      given.wrong(
        key,
        `${key} is ${shown(value)}, and its default is ${shown(defaults[key])}`,
        `write ${valueKind(defaults[key])}`,
      );
    else result[key] = frozen(value);
  }
  return Object.freeze(result);
}

function valueKind(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (isPlainObject(value)) return "a table";
  return typeof value === "string" ? "text" : `a ${typeof value}`;
}

function frozen(value: unknown): unknown {
  if (Array.isArray(value)) return Object.freeze(value.map(frozen));
  if (!isPlainObject(value)) return value;
  return Object.freeze(Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, frozen(inner)])));
}
