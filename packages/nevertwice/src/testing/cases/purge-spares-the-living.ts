/** Purging removes expired records in small steps, and no record that is still needed. */
import type { Store } from "../../core/store.ts";
import { between, expect, matcher } from "./expect.ts";
import type { GuaranteeCases, Trial } from "./trial.ts";
import { type CaseAttempt, type CaseWork, DONE, RETENTION_MS, SHORT_MS, tally } from "./work.ts";

/** Enough steps for the other records of a shared store; a purge that never ends is stopped. */
const MAX_BITES = 1_000;

/** How often other purges may come first. */
const MAX_ROUNDS = 50;

/**
 * Retentions that are short enough to wait for their end. On a slow store a step may come too late for the first ones; a
 * store that refuses the step on all of them fails the case.
 */
const BRIEF_MS = [1_000, 4_000, 16_000];
const SOME_RECORD = matcher("a record", (record) => record !== undefined);

/** Purges until nothing is left to remove, and returns how many records were removed. */
async function purgeAll(store: Store, limit = 1_000): Promise<number> {
  let removed = 0;
  for (let bite = 0; bite < MAX_BITES; bite++) {
    const report = await store.purge(limit);
    removed += report.removed;
    if (!report.more) break;
  }
  return removed;
}

/** Work whose record has expired once `SHORT_MS` have passed. */
async function completeShortly(works: readonly CaseWork[]): Promise<void> {
  await Promise.all(works.map(async (work) => (await work.begin()).complete(DONE, SHORT_MS)));
}

/**
 * Claims with a brief retention, takes the step, and purges once that retention has ended. Resolves to the key, or to
 * undefined if the step was refused for every retention.
 */
async function outliveBriefly(
  { store, another, outlast }: Trial,
  step: (owner: CaseAttempt) => Promise<boolean>,
): Promise<CaseWork | undefined> {
  for (const briefMs of BRIEF_MS) {
    const work = another();
    if (!(await step(await work.begin({ leaseMs: SHORT_MS, retentionMs: briefMs })))) continue;
    await outlast(SHORT_MS + briefMs);
    await purgeAll(store);
    return work;
  }
  return undefined;
}

export const purgeSparesTheLiving: GuaranteeCases = {
  "purge spares a pending key": {
    why: "Its owner is working, and the next claim would be a second owner.",
    async check({ store, work }) {
      await work.begin();
      await purgeAll(store);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  "purge spares a completed key until its retention ends": {
    why: "The next retry would run the work again.",
    async check({ store, work }) {
      await (await work.begin()).complete();
      await purgeAll(store);
      expect("another token's claim", await work.attempt().claim(), { status: "completed", outcome: DONE });
    },
  },
  "purge spares a lapsed key until its retention ends": {
    why: "The record says that an outcome is unknown.",
    async check({ store, work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      await purgeAll(store);
      expect("the record", await work.read(), SOME_RECORD);
    },
  },
  "purge spares a released key until its retention ends": {
    why: "The record has the fence and the number for the next attempt.",
    async check({ store, work }) {
      await (await work.begin()).abandon("released");
      await purgeAll(store);
      expect("the record", await work.read(), { state: "released" });
    },
  },
  "purge spares a held key that waits for a decision": {
    why: "However long it waits, its work must not run again without a decision.",
    async check({ store, work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS, retentionMs: SHORT_MS, hold: true });
      await outlast(2 * SHORT_MS);
      await purgeAll(store);
      expect("the record", await work.read(), SOME_RECORD);
    },
  },
  "purge spares a key that was claimed again": {
    why: "The deadline of the key's earlier record is not the deadline of this one.",
    async check({ store, work, outlast }) {
      await completeShortly([work]);
      await outlast(SHORT_MS);
      await work.begin();
      await purgeAll(store);
      expect("another token's claim", await work.attempt().claim(), { status: "pending" });
    },
  },
  "purge spares a key that was renewed": {
    why: "The deadline that the claim wrote is not the deadline of the renewed lease.",
    async check(trial) {
      const work = await outliveBriefly(trial, (owner) => owner.renew(RETENTION_MS));
      expect("the record", await work?.read(), SOME_RECORD);
    },
  },
  "purge spares a completed key whose claim was to be kept more briefly": {
    why: "The deadline that the claim wrote is not the deadline of the completion.",
    async check(trial) {
      const work = await outliveBriefly(trial, (owner) => owner.complete());
      expect("another token's claim", await work?.attempt().claim(), { status: "completed" });
    },
  },
  "purge and claims of expired keys at once leave every new owner its key": {
    why: "Between reading and removing, the key may have been claimed again.",
    async check({ store, another, outlast }) {
      const works = Array.from({ length: 20 }, () => another());
      await completeShortly(works);
      await outlast(SHORT_MS);
      const purging = purgeAll(store);
      const owners = await Promise.all(works.map((work) => work.begin()));
      await purging;
      const kept = await Promise.all(owners.map((owner) => owner.renew()));
      expect("how many of 20 owners still own their key", kept.filter(Boolean).length, 20);
    },
  },
  "purge removes what is past its time": {
    needs: ["purge"],
    why: "Otherwise the store grows for ever, and one with a limit fills up.",
    async check({ store, another, outlast }) {
      // Other purges of a shared store may remove the records first, several times in a row on a busy machine. Only a
      // store that never removes any fails every round.
      let removed = 0;
      for (let round = 0; round < MAX_ROUNDS && removed < 5; round++) {
        await completeShortly(Array.from({ length: 5 }, () => another()));
        await outlast(SHORT_MS);
        removed = (await purgeAll(store)) + (await purgeAll(store));
      }
      expect("how many records were removed", removed, between(5, Number.POSITIVE_INFINITY));
    },
  },
  "purge removes no more than it is told to": {
    why: "A purge in large steps would delay the claims behind it.",
    async check({ store, another, outlast }) {
      await completeShortly(Array.from({ length: 5 }, () => another()));
      await outlast(SHORT_MS);
      expect("a purge of at most 2", await store.purge(2), { removed: between(0, 2) });
    },
  },
  "a key that was purged is new": {
    why: "A record has to be removed completely: a remainder would confuse the next claim.",
    async check({ store, another, outlast }) {
      const works = Array.from({ length: 5 }, () => another());
      await completeShortly(works);
      await outlast(SHORT_MS);
      await purgeAll(store);
      const answers = await Promise.all(works.map((work) => work.attempt().claim()));
      expect("the claims of five purged keys", tally(answers), { new: 5 });
    },
  },
};
