/**
 * What one caller does with one key: it claims it, works, and ends its attempt in every way there is. It also does what
 * broken callers do: it repeats calls, comes late with old tokens, leaves its claim behind, and decides about old fences.
 */
import type { KeyAnswer, KeyCall, SeenRecord } from "./history.ts";
import type { SeededDraws } from "./random.ts";

export interface ScriptTerms {
  /** Begins the tokens and outcomes of this caller. */
  readonly name: string;
  readonly leaseMs: number;
  readonly retentionMs: number;
}

export interface ScriptedCall {
  readonly call: KeyCall;
  /** Tells the script the answer; undefined if none came. */
  told(answer: KeyAnswer | undefined): void;
}

/** Most requests under a key are the same request. */
const FINGERPRINTS = ["2:one", "2:one", "2:one", "2:one", "2:one", "2:one", "2:one", "2:other"] as const;
const MOST_STALE = 6;

/** Returns a function that makes the next call. One script belongs to one caller and one key. */
export function createScript(draws: SeededDraws, terms: ScriptTerms): () => ScriptedCall {
  const { name, leaseMs, retentionMs } = terms;
  let tokens = 0;
  /** The token of the claim that this caller owns, as far as it knows. */
  let own: string | undefined;
  /** The claim that got no answer. */
  let unsure: KeyCall | undefined;
  /** The fence that an answer showed last, and whether that record waits for a decision. */
  let fence: number | undefined;
  let isHeld = false;
  const stale: string[] = [];

  function giveUp(): void {
    if (own !== undefined) stale.push(own);
    if (stale.length > MOST_STALE) stale.shift();
    own = undefined;
  }

  function claim(takeover?: number): KeyCall {
    tokens++;
    return {
      kind: "claim",
      token: `${name}.${tokens}`,
      fingerprint: draws.pick(FINGERPRINTS),
      leaseMs,
      retentionMs,
      hold: draws.chance(0.15),
      ...(takeover !== undefined && { takeover }),
    };
  }

  /** A step with this token, whether it owns the claim or not. */
  function step(token: string): KeyCall {
    const kind = draws.pick(["complete", "complete", "abandon", "renew"]);
    if (kind === "complete") return { kind, token, outcome: `${token}/${draws.below(1_000)}`, retentionMs };
    if (kind === "renew") return { kind, token, leaseMs };
    return { kind, token, as: draws.pick(["released", "released", "unknown", "unrun"]) };
  }

  function nextCall(): KeyCall {
    if (draws.chance(0.1)) return { kind: "read" };
    if (own !== undefined) {
      if (draws.chance(0.08)) return { ...claim(), token: own } as KeyCall;
      // It leaves its claim behind, as a process that dies does.
      if (draws.chance(0.12)) giveUp();
      else return step(own);
    }
    if (unsure !== undefined && draws.chance(0.6)) return unsure;
    if (isHeld && fence !== undefined && draws.chance(0.4)) return claim(fence);
    if (fence !== undefined && draws.chance(0.15))
      return { kind: "forget", fence, reopen: draws.chance(0.6) };
    const [first, ...more] = stale;
    if (first !== undefined && draws.chance(0.15)) return step(draws.pick([first, ...more]));
    return claim();
  }

  function learn(call: KeyCall, answer: KeyAnswer | undefined): void {
    if (call.kind === "claim") {
      unsure = answer === undefined ? call : unsure === call ? undefined : unsure;
      if (typeof answer !== "object" || answer === null || !("status" in answer)) return;
      isHeld = answer.status === "unknown";
      if (answer.status === "unknown") fence = answer.fence;
      if (answer.status !== "new") return;
      giveUp();
      own = call.token;
      fence = answer.fence;
    } else if (call.kind === "read") {
      fence = (answer as SeenRecord | null | undefined)?.fence ?? fence;
    } else if (call.kind !== "forget" && call.kind !== "renew" && call.token === own && answer !== undefined)
      giveUp();
    else if (call.kind === "renew" && answer === false && call.token === own) giveUp();
  }

  return () => {
    const call = nextCall();
    return { call, told: (answer) => learn(call, answer) };
  };
}
