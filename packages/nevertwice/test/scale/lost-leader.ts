/** Runs processes on a store that loses its leader again and again, and judges what they saw. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { scratchFolder } from "../scratch-folder.ts";
import { notesIn, startLedger } from "./ledger.ts";
import {
  type ClaimantNote,
  type FaultWindow,
  judgeLostLeader,
  type LostLeaderVerdict,
  stepSpeeds,
} from "./lost-leader-judge.ts";
import { startProcess } from "./processes.ts";

export interface LostLeaderPlan {
  readonly url: string;
  readonly processes: number;
  readonly lanes: number;
  /** How long each lane rests after a claim: a store that is fast would fill the memory of the referee. */
  readonly pauseMs?: number;
  readonly seconds: number;
  /** From the begin of a fault to the next one, and how long the fault alone lasts. */
  readonly everyMs: number;
  readonly faultMs: number;
  /** Makes the store lose its leader; resolves to how it is healed. */
  strike(round: number): Promise<() => Promise<unknown>>;
  readonly store: Pick<Store, "read">;
}

export interface LostLeaderTrial extends LostLeaderVerdict {
  readonly faults: number;
  readonly lastedS: number;
  readonly speeds: ReturnType<typeof stepSpeeds>;
}

const now = () => Number(process.hrtime.bigint() / 1_000n);

/** Processes that claim and finish keys, and make an entry in the ledger for each effect. */
export async function startClaimants(
  context: TestContext,
  { url, processes, lanes, pauseMs = 0 }: Pick<LostLeaderPlan, "url" | "processes" | "lanes" | "pauseMs">,
) {
  const folder = await scratchFolder(context);
  const ledger = await startLedger(context);
  const files = Array.from({ length: processes }, (_, i) => join(folder, `process-${i}`));
  const running = files.map((notes) =>
    startProcess(context, "claimant.js", { url, ledger: ledger.port, lanes, pauseMs, notes }),
  );
  await Promise.all(running.map((each) => each.next("ready")));
  for (const each of running) each.tell("begin");
  return {
    /** What they noted, and what the ledger has. */
    async end() {
      for (const each of running) each.tell("end");
      await Promise.all(running.map(({ ended }) => ended));
      const notes = (await Promise.all(files.map((path) => notesIn<ClaimantNote>(path)))).flat();
      return { notes, tries: await ledger.report() };
    },
  };
}

export async function loseLeaders(context: TestContext, plan: LostLeaderPlan): Promise<LostLeaderTrial> {
  const { url, processes, lanes, pauseMs = 0, seconds, everyMs, faultMs, strike, store } = plan;
  const claimants = await startClaimants(context, { url, processes, lanes, pauseMs });
  const from = now();
  const faults: FaultWindow[] = [];
  const startedAt = performance.now();
  const until = (ms: number) => sleep(Math.max(0, startedAt + ms - performance.now()));
  for (let strikeAt = everyMs - faultMs; strikeAt + faultMs <= seconds * 1_000; strikeAt += everyMs) {
    await until(strikeAt);
    const began = now();
    const heal = await strike(faults.length);
    await sleep(Math.max(0, faultMs - (now() - began) / 1_000));
    await heal();
    faults.push({ from: began, to: now() });
  }
  await until(seconds * 1_000);
  const to = now();
  const { notes, tries } = await claimants.end();
  const verdict = await judgeLostLeader(store, notes, tries);
  return {
    ...verdict,
    faults: faults.length,
    lastedS: Math.round((to - from) / 1e6),
    speeds: stepSpeeds(notes, faults, { from, to }),
  };
}
