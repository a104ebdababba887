/**
 * The home map in the stores of all regions. The region whose name is first in the alphabet decides: a version is written to its store
 * first, and only if that version was still free there. The other stores get copies. So two operators cannot make two maps of one
 * version.
 */
import { NevertwiceError, type Store } from "nevertwice";
import type { HomeMap } from "./home-map.ts";
import { createHomeMapLog, type HomeMapLog } from "./home-map-log.ts";

export interface HomeMapLogs {
  /** The newest map. Stores that lack versions get them first. Throws `unavailable` if a store cannot be reached. */
  newest(): Promise<HomeMap | undefined>;
  /** Writes the next version to every store. Throws `concurrent-modification` if another operator was faster. */
  publish(map: HomeMap): Promise<void>;
  close(): Promise<void>;
}

export function createHomeMapLogs(stores: ReadonlyMap<string, Store>): HomeMapLogs {
  const logs = [...stores].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, store]) => createHomeMapLog(store));
  const [deciding, ...others] = logs as [HomeMapLog, ...HomeMapLog[]];

  async function complete(log: HomeMapLog, newest: HomeMap | undefined): Promise<void> {
    const own = await log.newest();
    if ((own?.version ?? 0) > (newest?.version ?? 0)) throw forkError(own as HomeMap);
    for (let version = own?.version ?? 1; version <= (newest?.version ?? 0); version++) {
      const map = (await deciding.read(version)) as HomeMap;
      if (!isSame(await log.publish(map), map)) throw forkError(map);
    }
  }

  return {
    async newest() {
      const newest = await deciding.newest();
      for (const log of others) await complete(log, newest);
      return newest;
    },

    async publish(map) {
      if (!isSame(await deciding.publish(map), map))
        throw new NevertwiceError(
          "concurrent-modification",
          `another operator has published version ${map.version} of the home map. Nothing was changed; look at it, and try again.`,
        );
      for (const log of others) if (!isSame(await log.publish(map), map)) throw forkError(map);
    },

    close: async () => void (await Promise.all(logs.map((log) => log.close()))),
  };
}

function isSame(one: HomeMap, other: HomeMap): boolean {
  const text = (map: HomeMap) =>
    JSON.stringify([map.version, map.default, sorted(map.homes), sorted(map.frozen)]);
  return text(one) === text(other);
}

function sorted(table: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(table).sort(([a], [b]) => (a < b ? -1 : 1));
}

function forkError({ version }: HomeMap): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    `the stores have different maps as version ${version}. Are these the stores of one set of regions, all of them named?`,
  );
}
