/**
 * Which region is the home of which owner of keys. Every change is a new version, and every version stays as it is. A gateway runs a
 * request only if the newest version in its own store says that the owner's home is here.
 */
import { NevertwiceError } from "nevertwice";

export interface HomeMap {
  /** Counts from 1 without gaps. */
  readonly version: number;
  /** The home of every scope that `homes` does not name. */
  readonly default: string;
  /** The homes of scopes, where they differ from the default. */
  readonly homes: Readonly<Record<string, string>>;
  /** The scopes that are being moved, and where to. Until then no region runs their requests. */
  readonly frozen: Readonly<Record<string, string>>;
}

export interface Home {
  readonly region: string;
  /** Where the scope is being moved; undefined if it is not. */
  readonly movesTo: string | undefined;
}

/** The name of a region: short, so that it fits in headers and messages. */
export const REGION_NAME = /^[a-z0-9][a-z0-9-]{0,31}$/;
/** A map is one record, and a record has a largest size. */
const MAX_MAP_BYTES = 500_000;

export function homeIn(map: HomeMap, scope: string): Home {
  return {
    region: valueAt(map.homes, scope) ?? map.default,
    movesTo: valueAt(map.frozen, scope),
  };
}

export function frozenMap(map: HomeMap, scope: string, movesTo: string): HomeMap {
  return checkedSize({ ...map, version: map.version + 1, frozen: { ...map.frozen, [scope]: movesTo } });
}

/** The scope runs again, in `region`. */
export function thawedMap(map: HomeMap, scope: string, region: string): HomeMap {
  const homes = without(map.homes, scope);
  return checkedSize({
    version: map.version + 1,
    default: map.default,
    homes: region === map.default ? homes : { ...homes, [scope]: region },
    frozen: without(map.frozen, scope),
  });
}

/** Undefined for a value that is not a map of this version. */
export function readHomeMap(value: unknown, version: number): HomeMap | undefined {
  const map = (value ?? {}) as Partial<Record<keyof HomeMap, unknown>>;
  const isFit =
    map.version === version && isRegion(map.default) && areRegions(map.homes) && areRegions(map.frozen);
  return isFit ? (value as HomeMap) : undefined;
}

function checkedSize(map: HomeMap): HomeMap {
  const bytes = Buffer.byteLength(JSON.stringify(map));
  if (bytes <= MAX_MAP_BYTES) return map;
  throw new NevertwiceError(
    "request-invalid",
    `the home map would have ${bytes} bytes; ${MAX_MAP_BYTES} is the limit. Name fewer scopes whose home is not the default.`,
  );
}

/** A scope may be called `constructor`. */
function valueAt(table: Readonly<Record<string, string>>, scope: string): string | undefined {
  return Object.hasOwn(table, scope) ? table[scope] : undefined;
}

function without(table: Readonly<Record<string, string>>, scope: string): Record<string, string> {
  return Object.fromEntries(Object.entries(table).filter(([name]) => name !== scope));
}

function isRegion(value: unknown): boolean {
  return typeof value === "string" && REGION_NAME.test(value);
}

function areRegions(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every(isRegion)
  );
}
