/**
 * A settlement is the claim (`nevertwice:settled`) that covers everything emitted from one message. The first node with a
 * key on the message's way holds it from the moment it forwards its output until all of that output has ended. Only then
 * is the claim completed:
 *
 *     take         claim ─ run ─ complete
 *     settlement                          claim ──────────────────────────────────── complete
 *     price                                  claim ─ run ─ complete
 *     ship                                                        claim ─ run ─ complete
 *                          a crash at ①             or ②                             ③ all is settled
 *
 *   ① take is completed and has no settlement. The next delivery of the message claims one and forwards what take stored.
 *   ② The settlement lapses. The next delivery takes it over and forwards what take stored. Price does not run again: it is
 *     completed, and forwards what it stored to ship.
 *   ③ A duplicate finds the settlement completed, and forwards nothing.
 *
 * So a crash between a node's completion and the delivery of its output loses nothing, and two processes never forward the
 * same output at once. Every node after the first stores the settlement's name with its own outcome. A delivery that takes
 * another way, for example after nodes were renamed, may find price completed under the settlement of a node that it never
 * visited. It then asks that settlement whether the output of price has ended, and forwards it if not.
 */

import { hash } from "node:crypto";
import { HUNDRED_YEARS_MS } from "../core/option-checks.ts";
import type { PolicyOptions } from "../core/policy.ts";
import type { RunRequest } from "../core/request.ts";
import { reserved } from "../core/reserved.ts";

/** The name of a settlement. */
export interface MessageSettlement {
  readonly scope: string;
  readonly key: string;
}

export function isSameSettlement(one: MessageSettlement, other: MessageSettlement): boolean {
  return one.scope === other.scope && one.key === other.key;
}

/** The run is part of the key: that an earlier run of a node's key was settled says nothing about a later run. */
export function createSettlement(
  { scope, key }: Pick<RunRequest, "key"> & { readonly scope: string },
  run: string,
): MessageSettlement {
  return { scope, key: `${hash("sha256", String(key), "hex")}.${run}` };
}

/** The policies of settlements that are kept for so long. */
export function settlementPolicies(retentionMs: number) {
  return {
    onCompleted: "replay",
    onPending: "reject",
    retentionMs,
    retentionFrom: "completion",
    onFailure: "release",
    // The new owner forwards the output again. Each node behind it decides by its own key whether to run.
    onLapsed: "takeover",
    // The claim is held for as long as the process lives.
    maxRunMs: HUNDRED_YEARS_MS,
  } as const satisfies PolicyOptions;
}

const SETTLED = {
  ...reserved("settled"),
  scope: "",
  key: "",
  /** A reply that is too large is left out. The fact that everything is settled is still stored. */
  shorten: () => ({}),
} satisfies RunRequest;

export function settlementRequest({ scope, key }: MessageSettlement) {
  return { ...SETTLED, scope, key } satisfies RunRequest;
}
