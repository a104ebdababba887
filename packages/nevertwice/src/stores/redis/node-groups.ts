/**
 * Groups of calls on a cluster. A script may declare only keys of one slot, and nearly every key has another one. So the calls
 * for one server share a script that declares no keys: Redis checks each key when the script uses it, and raises an error at
 * one that this server does not have. The calls of a group that failed are repeated alone, with the same tokens, by the
 * cluster client, which follows slots that have moved. Some of them may have been applied, as after a lost reply.
 */
import type { LuaScript } from "../redis-lua.ts";
import { runScript } from "./client.ts";
import type { ClusterScripts } from "./cluster-nodes.ts";
import { isForbidden, isNoAnswer } from "./errors.ts";

/** Runs a script on the records with these ids. */
export type RunOnRecords = (
  script: LuaScript,
  ids: readonly string[],
  args: readonly string[],
) => Promise<unknown>;

export interface NodeGroup {
  /** Whether calls may share a script now. */
  isOpen(): boolean;
  readonly run: RunOnRecords;
}

export interface NodeGroups {
  /** Undefined if the client knows no server for this record. */
  find(id: string): NodeGroup | undefined;
}

/** After a group failed, the calls for its server are sent alone for this time: slots may be moving, or it refuses groups. */
const PAUSE_MS = 1_000;
/** When a server that did not refuse a key of another one is asked again. */
const RECHECK_MS = 60_000;
const PROBES = 1_000;
/**
 * Answers at once on Valkey 9 and later. There, a slot that is moving to another server takes along what a script writes by
 * the keys that the script declares, so it would lose the writes of a group.
 */
const PROBE = `
local moving = redis.pcall('COMMAND', 'INFO', 'cluster|migrateslots')
if moving.err or moving[1] then return 0 end
return redis.call('EXISTS', ARGV[1])`;

/** `toKey` returns the key of a record as it is in Redis. */
export function createNodeGroups(nodes: ClusterScripts, toKey: (id: string) => string): NodeGroups {
  const groups = new WeakMap<object, NodeGroup>();

  /** The key of no record, on another server; undefined if this server seems to have all slots. */
  function foreignKey(node: object): string | undefined {
    for (let i = 0; i < PROBES; i++) {
      const owner = nodes.find(toKey(String(i)));
      if (owner !== undefined && owner !== node) return toKey(String(i));
    }
    return undefined;
  }

  /**
   * one-owner: whether this server refuses a key of another server in a script that declares none. One that did not would
   * grant claims for slots that it has lost.
   */
  async function checksKeys(node: object): Promise<boolean> {
    const key = foreignKey(node);
    if (key === undefined) return true;
    try {
      await nodes.evaluate(node, "EVAL", [PROBE, "0", key]);
      return false;
    } catch (error) {
      if (isNoAnswer(error)) throw error;
      return !isForbidden(error);
    }
  }

  function createGroup(node: object): NodeGroup {
    const evaluate = (command: "EVALSHA" | "EVAL", args: readonly string[]) =>
      nodes.evaluate(node, command, args);
    let isChecked: true | undefined;
    let pausedUntil = 0;
    const pause = () => {
      pausedUntil = performance.now() + PAUSE_MS;
    };
    return {
      isOpen() {
        if (performance.now() < pausedUntil) return false;
        if (isChecked === undefined) {
          pause();
          checksKeys(node).then((checks) => {
            // Asked again if it did not refuse: the key may be one that has just moved to it.
            isChecked = checks || undefined;
            pausedUntil = checks ? 0 : performance.now() + RECHECK_MS;
          }, pause);
        }
        return isChecked === true;
      },
      async run(script, ids, args) {
        const { apart = script } = script;
        try {
          return await runScript(evaluate, apart, [
            apart.sha,
            "0",
            String(ids.length),
            ...ids.map(toKey),
            ...args,
          ]);
        } catch (error) {
          pause();
          throw error;
        }
      },
    };
  }

  return {
    find(id) {
      const node = nodes.find(toKey(id));
      if (node === undefined) return undefined;
      const group = groups.get(node) ?? createGroup(node);
      groups.set(node, group);
      return group;
    },
  };
}
