/**
 * Histories that are right by construction: calls that overlap on the memory store, whose clock the script moves. Each takes
 * effect at one moment between its request and its answer; some answers, and some requests, are lost.
 */
import { memoryStore } from "nevertwice/stores/memory";
import { manualClock } from "nevertwice/testing";
import type { KeyCall, KeyOperation } from "../../cli/prove/history.ts";
import { seededDraws } from "../../cli/prove/random.ts";
import { callStore } from "../../cli/prove/recorded-store.ts";
import { createScript } from "../../cli/prove/script.ts";

const LEASE_MS = 60;
/** How long before it takes effect a call was sent, and how long after it was answered, at most. */
const MOST_MS = 6;
const KEY = { id: "0".repeat(64), namespace: "history", key: "key" };

/** At least so many calls about one key. */
export async function recordedHistory(
  seed: number,
  calls: number,
  lostShare = 0.06,
): Promise<readonly KeyOperation[]> {
  const draws = seededDraws(seed);
  const clock = manualClock(1_000_000);
  const store = memoryStore({ clock });
  const scripts = ["ada", "bob", "eve"].map((name) =>
    createScript(draws, { leaseMs: LEASE_MS, retentionMs: 3_000, name }),
  );
  const history: KeyOperation[] = [];
  /** Requests that arrive late, after their callers have given them up. */
  const late: KeyCall[] = [];
  const send = (call: KeyCall) => callStore(store, KEY, call);
  while (history.length < calls) {
    clock.advance(
      draws.chance(0.03) ? draws.below(2 * LEASE_MS) : draws.chance(0.002) ? 4_000 : draws.below(4),
    );
    if (late[0] !== undefined && draws.chance(0.3)) await send(late.shift() as KeyCall);
    const { call, told } = (scripts[draws.below(scripts.length)] as (typeof scripts)[number])();
    const sentAt = (clock.now() - draws.below(MOST_MS)) * 1_000;
    const answeredAt = (clock.now() + draws.below(MOST_MS)) * 1_000;
    const isLost = draws.chance(lostShare);
    if (isLost) {
      const way = draws.pick(["never", "late", "at once"]);
      if (way === "late") late.push(call);
      if (way === "at once") await send(call);
      history.push({ by: "a caller", call, sentAt, answeredAt: Number.POSITIVE_INFINITY, answer: undefined });
      told(undefined);
    } else {
      const answer = await send(call);
      history.push({ by: "a caller", call, sentAt, answeredAt, answer });
      told(answer);
    }
  }
  return history;
}
