/**
 * The versions of the home map in one store. Each version is a completed record that never changes, and only one writer can make
 * the next one.
 */
import { type Guard, NevertwiceError, type Store } from "nevertwice";
import { recordedValue } from "../recorded-value.ts";
import { createServerGuard } from "../server-guard.ts";
import { type HomeMap, readHomeMap } from "./home-map.ts";

export interface HomeMapLog {
  /** Undefined if the store does not have this version. Throws `unavailable` if it cannot be read. */
  read(version: number): Promise<HomeMap | undefined>;
  /** The newest version, from `known` on if that is given; undefined if there is none. */
  newest(known?: HomeMap): Promise<HomeMap | undefined>;
  /** Writes a map as its version, and returns the map that the store has as this version: another one if another writer was faster. */
  publish(map: HomeMap): Promise<HomeMap>;
  close(): Promise<void>;
}

const OPERATION = "home-map";

export function createHomeMapLog(store: Store, drainMs = 0): HomeMapLog {
  const guard: Guard = createServerGuard(store, drainMs);
  const subject = (version: number) => ({ operation: OPERATION, key: String(version) });

  async function read(version: number): Promise<HomeMap | undefined> {
    const record = await guard.read(subject(version));
    if (record === undefined || record.state !== "completed") return undefined;
    const value = record.outcome?.kind === "value" ? record.outcome.value : undefined;
    return checked(readHomeMap(value, version), version);
  }

  return {
    read,

    async newest(known) {
      let map = known ?? (await findFrom(read));
      for (let next = map; next !== undefined; next = await read(next.version + 1)) map = next;
      return map;
    },

    async publish(map) {
      const stored = await recordedValue(guard, subject(map.version), () => map);
      return checked(readHomeMap(stored, map.version), map.version);
    },

    close: async () => void (await guard.close()),
  };
}

/** A version near the newest one, so that a long history is not read one by one: versions have no gaps. */
async function findFrom(read: HomeMapLog["read"]): Promise<HomeMap | undefined> {
  let found = await read(1);
  for (let version = 2; found !== undefined; version *= 2) {
    const next = await read(version);
    if (next === undefined) break;
    found = next;
  }
  return found;
}

function checked(map: HomeMap | undefined, version: number): HomeMap {
  if (map !== undefined) return map;
  throw new NevertwiceError("unavailable", `version ${version} of the home map cannot be read.`);
}
