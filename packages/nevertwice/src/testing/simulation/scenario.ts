/** Draws what happens in one schedule from its seed, as plain data that a person can read. */
import type { Policy } from "../../core/policy.ts";
import type { FaultRates } from "../faulty-store.ts";
import type { Random } from "../random.ts";

export const LEASE_MS = 100;
/** Within what time all calls of a crowd come, to one process: many of them are queued together. */
const CROWD_MS = 60;

/** What one call's work does. */
export interface PlannedWork {
  /** Infinity: it never ends. */
  readonly lastsMs: number;
  readonly ending: "return" | "throw" | "not-done" | "throw-when-lost";
  /** How many steps it has, and how long each of them lasts. They come before the rest of the work. */
  readonly steps: number;
  readonly stepMs: number;
}

export interface PlannedCall {
  readonly at: number;
  readonly worker: number;
  readonly scope: string;
  readonly key: string;
  readonly fingerprint: string | undefined;
  readonly policy: Partial<Policy>;
  readonly work: PlannedWork;
  /** When the caller cancels, counted from the call; 0: as soon as the call has returned its promise. */
  readonly cancelAfterMs: number | undefined;
}

export type PlannedFault =
  | { readonly at: number; readonly kind: "crash" | "close"; readonly worker: number }
  | { readonly at: number; readonly kind: "pause"; readonly worker: number; readonly lastsMs: number }
  | { readonly at: number; readonly kind: "clock-jump"; readonly byMs: number }
  | { readonly at: number; readonly kind: "outage"; readonly lastsMs: number; readonly rates: FaultRates }
  | { readonly at: number; readonly kind: "purge" };

export interface Scenario {
  readonly workers: number;
  readonly rates: FaultRates;
  readonly delayMs: number;
  /** The share of claims and completions that a store answers directly, if it can. */
  readonly directShare: number;
  readonly calls: readonly PlannedCall[];
  readonly faults: readonly PlannedFault[];
  /**
   * How long it takes a process to send a group of claims. Those that come meanwhile wait, and the ones that are alike share
   * one. Undefined: every claim is sent alone, at once.
   */
  readonly groupMs: number | undefined;
  /** How a reconciler decides. */
  readonly reconcileAs: "done" | "failed" | "not-done" | "unknown";
}

/** `beside` draws what was added to scenarios, so that a seed draws everything else as before. */
export function drawScenario(random: Random, beside: Random): Scenario {
  const workers = random.between(1, 3);
  const shared = drawSharedPolicy(random);
  const calls = Array.from({ length: random.between(2, 5) }, () => drawCall(random, workers, shared));
  const faults = Array.from({ length: random.between(0, 3) }, () => drawFault(random, workers));
  const isCalm = random.chance(0.35);
  const most = random.pick([0.05, 0.15, 0.3]);
  const groupMs = beside.pick([undefined, undefined, 0, 10, 40]);
  const isCrowd = groupMs !== undefined && beside.chance(0.5);
  return {
    workers,
    rates: isCalm ? { delay: 0.2 } : drawRates(random, most),
    delayMs: random.pick([5, 40, 150]),
    directShare: random.pick([0, 0, 0.3, 0.7, 1]),
    calls: isCrowd ? calls.map((call) => ({ ...call, worker: 0, at: beside.between(0, CROWD_MS) })) : calls,
    faults,
    groupMs,
    reconcileAs: random.pick(["done", "failed", "not-done", "unknown"]),
  };
}

function drawRates(random: Random, most: number): FaultRates {
  const rate = () => (random.chance(0.5) ? 0 : random.next() * most);
  return {
    refuse: rate(),
    hang: rate(),
    "lose-reply": rate(),
    "break-reply": rate(),
    delay: rate() + 0.1,
    "delay-reply": rate(),
  };
}

/** The policies that all callers of one application share. */
function drawSharedPolicy(random: Random): Partial<Policy> {
  return {
    leaseMs: LEASE_MS,
    retentionMs: random.pick([60, 400, 2_000]),
    storeTimeoutMs: random.pick([20, 60, 130]),
    completeWaitMs: random.pick([0, 30, 100]),
    maxRunMs: random.pick([150, 500]),
    onLapsed: random.chance(0.3) ? "hold" : "takeover",
    retentionFrom: random.chance(0.2) ? "claim" : "completion",
  };
}

function drawCall(random: Random, workers: number, shared: Partial<Policy>): PlannedCall {
  const isHold = shared.onLapsed === "hold";
  return {
    at: random.chance(0.5) ? random.between(0, 20) : random.between(0, 600),
    worker: random.between(0, workers - 1),
    scope: random.chance(0.8) ? "alice" : "bob",
    key: random.chance(0.85) ? "k1" : "k2",
    fingerprint: random.pick(["a", "a", "a", "a", "b", undefined]),
    policy: {
      ...shared,
      onPending: random.chance(0.7) ? "wait" : "reject",
      waitMs: random.pick([30, 200, 1_000]),
      onCompleted: random.chance(0.9) ? "replay" : "reject",
      onFailure: random.pick(["release", "release", "remember", "unknown"]),
      onUnavailable: !isHold && random.chance(0.25) ? "proceed" : "refuse",
    },
    work: {
      lastsMs: random.chance(0.02)
        ? Number.POSITIVE_INFINITY
        : random.pick([0, 5, random.between(0, 30), random.between(60, 140), random.between(150, 450)]),
      ending: random.pick([
        "return",
        "return",
        "return",
        "return",
        "return",
        "throw",
        "not-done",
        "throw-when-lost",
      ]),
      steps: random.pick([0, 0, 0, 1, 3]),
      stepMs: random.pick([0, 5, random.between(0, 60)]),
    },
    cancelAfterMs: random.chance(0.12) ? Math.max(0, random.between(-30, 150)) : undefined,
  };
}

function drawFault(random: Random, workers: number): PlannedFault {
  const at = random.between(0, 500);
  const worker = random.between(0, workers - 1);
  switch (
    random.pick(["crash", "close", "pause", "pause", "clock-jump", "clock-jump", "outage", "purge"] as const)
  ) {
    case "crash":
      return { at, kind: "crash", worker };
    case "close":
      return { at, kind: "close", worker };
    case "pause":
      return { at, kind: "pause", worker, lastsMs: random.between(50, 400) };
    case "clock-jump":
      return { at, kind: "clock-jump", byMs: random.pick([-5_000, -1_500, -200, -50, 50, 110, 500, 3_000]) };
    case "outage":
      return {
        at,
        kind: "outage",
        lastsMs: random.between(20, 400),
        rates: random.pick([{ refuse: 1 }, { hang: 1 }, { "lose-reply": 1 }]),
      };
    case "purge":
      return { at, kind: "purge" };
  }
}
