/** What the referee knows of each token: its owner, whether its work runs, and what its process has not settled yet. */
import type { ClaimAnswer } from "../../core/store.ts";
import type { Fail } from "./invariant.ts";

export interface Tenure {
  readonly owner: string;
  readonly id: string;
  /** True time of the last grant or renewal. */
  grantedAt: number;
  leaseMs: number;
  /** An answer to a claim, a complete or an abandon reached its sender. */
  isAnswered: boolean;
  /** A `new` reached its sender at any time. */
  isKnownNew: boolean;
  /** The store has applied the end of the latest grant; `isSettled`: and its answer came back. */
  isTold: boolean;
  isSettled: boolean;
  work: "unstarted" | "running" | "returned" | "threw" | "threw-unsure";
  /** The finished steps of the record: those that the last grant found, and its own since then. */
  readonly finished: Set<string>;
  /** Every step that was finished under this token. A record that expired in between has lost some of them. */
  readonly everFinished: Set<string>;
}

export interface Tenures {
  get(token: string): Tenure | undefined;
  claimed(owner: string, token: string, id: string): void;
  granted(token: string, grant: { fence: number; leaseMs: number; steps: readonly string[] }): void;
  renewed(token: string): void;
  /** A complete or abandon was applied. */
  told(token: string): Tenure | undefined;
  /** An answer reached the process that asked. */
  delivered(method: string, token: string, answer: unknown): void;
  /** The work of the attempt with this fence starts. */
  started(id: string, fence: number): Tenure | undefined;
  /** A process works on a key without a claim and never ends, so its claims need not be settled. */
  excuse(owner: string, id: string): void;
  /** At the end of a schedule: fails if a living process has not settled a claim. */
  checkDebts(isAlive: (owner: string) => boolean, isStanding: (token: string, id: string) => boolean): void;
}

export function finishStep({ finished, everFinished }: Tenure, name: string): void {
  finished.add(name);
  everFinished.add(name);
}

export function createTenures(trueNow: () => number, fail: Fail): Tenures {
  const tenures = new Map<string, Tenure>();
  const byFence = new Map<string, Tenure>();
  const excused = new Set<string>();
  /** The tokens whose claims were answered. A claim that was shared is answered before the store has seen its token. */
  const answered = new Set<string>();

  return {
    get: (token) => tenures.get(token),
    claimed(owner, token, id) {
      if (tenures.has(token)) return;
      tenures.set(token, {
        owner,
        id,
        grantedAt: 0,
        leaseMs: 0,
        isAnswered: answered.has(token),
        isKnownNew: false,
        isTold: false,
        isSettled: false,
        work: "unstarted",
        finished: new Set(),
        everFinished: new Set(),
      });
    },
    granted(token, { fence, leaseMs, steps }) {
      const tenure = tenures.get(token);
      if (tenure === undefined) return;
      tenure.grantedAt = trueNow();
      tenure.leaseMs = leaseMs;
      // Everything before this grant was about an earlier one.
      tenure.isTold = false;
      tenure.isSettled = false;
      tenure.finished.clear();
      for (const name of steps) finishStep(tenure, name);
      byFence.set(`${tenure.id} ${fence}`, tenure);
    },
    renewed(token) {
      const tenure = tenures.get(token);
      if (tenure !== undefined) tenure.grantedAt = trueNow();
    },
    told(token) {
      const tenure = tenures.get(token);
      if (tenure !== undefined) tenure.isTold = true;
      return tenure;
    },
    delivered(method, token, answer) {
      if (method === "claim") answered.add(token);
      const tenure = tenures.get(token);
      if (tenure === undefined) return;
      tenure.isAnswered = true;
      if (method !== "claim") tenure.isSettled = tenure.isTold;
      else if ((answer as ClaimAnswer).status === "new") tenure.isKnownNew = true;
    },
    started(id, fence) {
      const tenure = byFence.get(`${id} ${fence}`);
      if (tenure === undefined) {
        fail("I3", `work started under fence ${fence}, which no claim was given`);
        return undefined;
      }
      if (tenure.work !== "unstarted") fail("I1", `two attempts ran under fence ${fence}`);
      if (trueNow() >= tenure.grantedAt + tenure.leaseMs)
        fail("I3", "work started on a lease that had already ended");
      tenure.work = "running";
      return tenure;
    },
    excuse: (owner, id) => void excused.add(`${owner} ${id}`),
    checkDebts(isAlive, isStanding) {
      for (const [token, { owner, id, work, isAnswered, isSettled, isKnownNew }] of tenures) {
        if (!isAlive(owner) || work === "running" || excused.has(`${owner} ${id}`)) continue;
        if (!isAnswered) fail("I8", "a process forgot a claim whose answer it never had");
        if (work !== "unstarted" && !isSettled)
          fail("I2", "a process gave up telling the store how its work ended");
        if (isKnownNew && !isSettled && isStanding(token, id))
          fail("I8", "a process sits on a claim that it does not work on");
      }
    },
  };
}
