/** What the cases are written with: one key, the attempts to claim it, and their calls of a store. */
import { toHex } from "../../core/bytes.ts";
import { toIdentity } from "../../core/identity.ts";
import type { AbandonAs, ClaimAnswer, Parts, Store, StoreRecord } from "../../core/store.ts";
import { expect } from "./expect.ts";

/** A lease or retention whose end a case waits for, in real time where the store's clock cannot be moved. */
export const SHORT_MS = 50;
/** A lease that does not end by accident during a case, however slow the store. */
export const LONG_MS = 60_000;
export const RETENTION_MS = 3_600_000;

export const DONE = "done";
export const EVERY_AS: readonly AbandonAs[] = ["released", "unknown", "unrun"];

/** The options of a claim. Default: a long lease, an hour's retention, no hold. */
export interface Terms {
  readonly fingerprint?: string;
  readonly leaseMs?: number;
  readonly retentionMs?: number;
  readonly hold?: boolean;
  readonly takeover?: number;
}

/** One token's calls for one key. */
export interface CaseAttempt {
  readonly token: string;
  claim(terms?: Terms): Promise<ClaimAnswer>;
  complete(outcome?: string, retentionMs?: number): Promise<boolean>;
  abandon(as: AbandonAs): Promise<boolean>;
  renew(leaseMs?: number): Promise<boolean>;
  keepStep(name: string, outcome?: string): Promise<boolean>;
}

export interface BegunAttempt extends CaseAttempt {
  readonly fence: number;
  readonly number: number;
}

/** One key, random unless it is given, so that other records in the store do not matter. */
export interface CaseWork {
  readonly id: string;
  readonly parts: Parts;
  /** A new token that has not claimed yet. */
  attempt(token?: string): CaseAttempt;
  /** A new token whose claim was granted. The case fails if it is not. */
  begin(terms?: Terms): Promise<BegunAttempt>;
  read(): Promise<StoreRecord | undefined>;
  /** As `read`, for a record that must be there. */
  record(): Promise<StoreRecord>;
  forget(fence: number): Promise<boolean>;
  /** As `forget`, but a completed record is released. */
  reopen(fence: number): Promise<boolean>;
  watch(wake: () => void): Promise<() => void>;
}

export function newParts(parts: Partial<Parts> = {}): Parts {
  return { namespace: "nevertwice-cases", scope: "", operation: "prove", key: crypto.randomUUID(), ...parts };
}

export function workOn(store: Store, parts: Parts = newParts(), id: string = toIdentity(parts).id): CaseWork {
  const attempt = (token: string = crypto.randomUUID()): CaseAttempt => ({
    token,
    claim: (terms = {}) =>
      store.claim({ id, parts, token, leaseMs: LONG_MS, retentionMs: RETENTION_MS, hold: false, ...terms }),
    complete: (outcome = DONE, retentionMs = RETENTION_MS) =>
      store.complete({ id, token, outcome, retentionMs }),
    abandon: (as) => store.abandon({ id, token, as }),
    renew: (leaseMs = LONG_MS) => store.renew({ id, token, leaseMs }),
    keepStep: (name, outcome = DONE) =>
      (store.keepStep as NonNullable<Store["keepStep"]>)({ id, token, name, outcome }),
  });
  return {
    id,
    parts,
    attempt,
    async begin(terms) {
      const begun = attempt();
      const answer = await begun.claim(terms);
      expect("the claim that sets the scene", answer, { status: "new" });
      const { fence, number } = answer as ClaimAnswer & { status: "new" };
      return { ...begun, fence, number };
    },
    read: () => store.read(id),
    async record() {
      const record = await store.read(id);
      if (record === undefined) expect("the record that is read", record, { id });
      return record as StoreRecord;
    },
    // The cases that use these name them in `needs`, and are skipped for a store that lacks them.
    forget: (fence) => (store.forget as NonNullable<Store["forget"]>)({ id, fence }),
    reopen: (fence) => (store.forget as NonNullable<Store["forget"]>)({ id, fence, reopen: true }),
    watch: (wake) => (store.watch as NonNullable<Store["watch"]>)({ id, wake }),
  };
}

/** A random id of 64 hexadecimal digits, as identities have. */
export function randomId(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(32)));
}

/** How many answers there are of each status. */
export function tally(answers: readonly ClaimAnswer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
