/** Stores that purge too much, too little, or at the wrong moment. */
import { claimRecord, completeRecord, isExpired } from "../../../src/core/record.ts";
import { RULES } from "../rule-store.ts";
import { type Fault, purging, soon } from "../wrong-rules.ts";

export const purgeSparesTheLiving: readonly Fault[] = [
  {
    fault: "purges whatever is not completed",
    rules: () => ({
      purge: purging((record, now) => record.state !== "completed" || isExpired(record, now)),
    }),
    caught: [
      "purge spares a pending key",
      "purge spares a lapsed key until its retention ends",
      "purge spares a released key until its retention ends",
      "purge spares a held key that waits for a decision",
      "purge spares a key that was claimed again",
      "purge spares a key that was renewed",
    ],
  },
  {
    fault: "purges whatever is completed",
    rules: () => ({
      purge: purging((record, now) => record.state === "completed" || isExpired(record, now)),
    }),
    caught: [
      "purge spares a completed key until its retention ends",
      "purge spares a completed key whose claim was to be kept more briefly",
    ],
  },
  {
    fault: "purges held keys whose retention has passed",
    rules: () => ({
      purge: purging((record, now) => now >= record.keptUntil),
    }),
    caught: ["purge spares a held key that waits for a decision"],
  },
  {
    fault: "purges by the deadline that it noted when the key was first claimed",
    rules: () => {
      const noted = new Map<string, number>();
      return {
        claim: (found, request, now, nextFence) => {
          const decision = claimRecord(found, request, now, nextFence);
          if (decision.write && !noted.has(request.id)) noted.set(request.id, decision.write.keptUntil);
          return decision;
        },
        complete: (found, request, now) => {
          const step = completeRecord(found, request, now);
          const until = noted.get(request.id) ?? 0;
          if (step.write) noted.set(request.id, Math.min(until, step.write.keptUntil));
          return step;
        },
        purge: purging(({ id, hold }, now) => !hold && now >= (noted.get(id) ?? 0)),
      };
    },
    caught: [
      "purge spares a key that was claimed again",
      "purge spares a key that was renewed",
      "purge spares a completed key whose claim was to be kept more briefly",
    ],
  },
  {
    fault: "looks for what has expired and then, in a second step, removes it",
    rules: () => ({
      async purge(records, limit, now) {
        const expired = [...records].filter(([, record]) => isExpired(record, now)).slice(0, limit);
        await soon();
        for (const [key] of expired) records.delete(key);
        return { removed: expired.length, more: false };
      },
    }),
    caught: ["purge and claims of expired keys at once leave every new owner its key"],
  },
  {
    fault: "purges nothing",
    rules: () => ({ purge: async () => ({ removed: 0, more: false }) }),
    caught: ["purge removes what is past its time"],
  },
  {
    fault: "purges everything at once",
    rules: () => ({ purge: (records, _limit, now) => RULES.purge(records, Number.POSITIVE_INFINITY, now) }),
    caught: ["purge removes no more than it is told to"],
  },
  {
    fault: "leaves what a bite removes after its first record as if it were claimed",
    rules: () => ({
      async purge(records, limit, now) {
        const expired = [...records].filter(([, record]) => isExpired(record, now)).slice(0, limit);
        for (const [i, [key, record]] of expired.entries()) {
          if (i === 0) records.delete(key);
          else
            records.set(key, {
              ...record,
              state: "pending",
              leaseEndsAt: now + 1_000,
              keptUntil: now + 1_000,
            });
        }
        return { removed: expired.length, more: false };
      },
    }),
    caught: [
      "purge and claims of expired keys at once leave every new owner its key",
      "a key that was purged is new",
    ],
  },
];
