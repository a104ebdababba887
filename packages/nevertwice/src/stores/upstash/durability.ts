/**
 * Which faults Upstash survives, for the doctor. The service documents how it stores and replicates, and does not let clients
 * read its settings. A Redis behind another REST proxy does, and is judged as over TCP.
 */
import { type Finding, restoreNote, type StoreSettings } from "../../core/durability.ts";
import { judgeDurability, type ServerFacts } from "../redis/durability.ts";

const STORED: Finding = {
  survives: "unknown",
  because:
    "Upstash documents that every write is on block storage, but not that it is there before the reply, and no setting can be read",
};

const FAILOVER: Finding = {
  survives: "no",
  because:
    "Upstash replicates asynchronously and settles conflicts by the last writer: an elected leader may lack the last claims",
};

export function judgeUpstash(servers: readonly ServerFacts[]): StoreSettings {
  const judged = judgeDurability(servers, 0);
  if (servers.some(({ hasAof }) => hasAof !== undefined))
    return { ...judged, title: `${judged.title}, over REST` };
  const isPolicyHidden = servers.some(
    ({ maxMemory, policy }) => maxMemory === undefined || policy === undefined,
  );
  return {
    ...judged,
    title: "Upstash, over REST",
    survives: { ...judged.survives, "store-crash": STORED, "power-loss": STORED, failover: FAILOVER },
    notes: isPolicyHidden
      ? [
          restoreNote("the server's clock", "none of Upstash brings back what was written after a backup"),
          "eviction cannot be read over REST: leave it disabled in the Upstash console, or claims are evicted",
        ]
      : judged.notes,
  };
}
