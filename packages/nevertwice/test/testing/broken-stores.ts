/**
 * Stores broken on purpose, each by one wrong rule that a store could well have, sorted by the one guarantee that it
 * breaks. Together they prove the cases: each case catches at least one of them, and none blames the wrong guarantee.
 */
import type { Guarantee } from "../../src/testing/index.ts";
import { abandonFrees } from "./broken-stores/abandon-frees.ts";
import { bytesExact } from "./broken-stores/bytes-exact.ts";
import { completeIsFinal } from "./broken-stores/complete-is-final.ts";
import { completeTwiceIsOnce } from "./broken-stores/complete-twice-is-once.ts";
import { conflictWins } from "./broken-stores/conflict-wins.ts";
import { expiredIsAbsent } from "./broken-stores/expired-is-absent.ts";
import { fenceGrows } from "./broken-stores/fence-grows.ts";
import { historyKept } from "./broken-stores/history-kept.ts";
import { identitiesApart } from "./broken-stores/identities-apart.ts";
import { leaseEnds } from "./broken-stores/lease-ends.ts";
import { listsFindRecords } from "./broken-stores/lists-find-records.ts";
import { oneOwner } from "./broken-stores/one-owner.ts";
import { ownClaimRecognised } from "./broken-stores/own-claim-recognised.ts";
import { purgeSparesTheLiving } from "./broken-stores/purge-spares-the-living.ts";
import { retentionEnds } from "./broken-stores/retention-ends.ts";
import { staleTokenRefused } from "./broken-stores/stale-token-refused.ts";
import { stepsStayDone } from "./broken-stores/steps-stay-done.ts";
import { takeoverIsSingle } from "./broken-stores/takeover-is-single.ts";
import { waitersWake } from "./broken-stores/waiters-wake.ts";
import type { Fault } from "./wrong-rules.ts";

export const BROKEN_STORES: Readonly<Record<Guarantee, readonly Fault[]>> = {
  "one-owner": oneOwner,
  "conflict-wins": conflictWins,
  "own-claim-recognised": ownClaimRecognised,
  "lease-ends": leaseEnds,
  "fence-grows": fenceGrows,
  "stale-token-refused": staleTokenRefused,
  "complete-is-final": completeIsFinal,
  "complete-twice-is-once": completeTwiceIsOnce,
  "abandon-frees": abandonFrees,
  "retention-ends": retentionEnds,
  "expired-is-absent": expiredIsAbsent,
  "identities-apart": identitiesApart,
  "bytes-exact": bytesExact,
  "purge-spares-the-living": purgeSparesTheLiving,
  "waiters-wake": waitersWake,
  "takeover-is-single": takeoverIsSingle,
  "steps-stay-done": stepsStayDone,
  "lists-find-records": listsFindRecords,
  "history-kept": historyKept,
};
