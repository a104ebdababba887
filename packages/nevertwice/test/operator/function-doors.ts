/** Functions, jobs, locks and protected work. */
import { createClaims } from "../../src/claims/index.ts";
import { reserved } from "../../src/core/reserved.ts";
import { protect, protectedFunction, replay, tryProtect } from "../../src/functions/protect.ts";
import type { OpenDoor } from "./door.ts";

const plain = (key: string) => ({ operation: "charge", scope: "tenant", key });

export const functionDoors: Readonly<Record<string, OpenDoor>> = {
  "guard.run": (guard, effect) => ({
    subject: plain,
    deliver: (key) => guard.run(plain(key), () => effect(key)).then(() => "answered"),
  }),
  "guard.tryRun that refuses duplicates": (guard, effect) => ({
    subject: plain,
    deliver: async (key) =>
      (await guard.tryRun({ ...plain(key), onCompleted: "reject" }, () => effect(key))).status,
  }),
  "guard.wrap": (guard, effect) => {
    const charge = guard.wrap((key: string) => effect(key), {
      operation: "charge",
      scope: "tenant",
      keyFrom: [0],
    });
    return { subject: plain, deliver: (key) => charge(key).then(() => "answered") };
  },
  "guard.mark": (guard, effect) => ({
    subject: plain,
    async deliver(key) {
      const isSeen = await guard.seen(plain(key));
      const isFirst = await guard.mark(plain(key));
      if (isFirst) effect(key);
      return `${isSeen ? "seen" : "not seen"}, ${isFirst ? "marked" : "marked before"}`;
    },
  }),
  "guard.exclusive": (guard, effect) => ({
    subject: (key) => ({ ...reserved("exclusive"), scope: "tenant", key }),
    deliver: (key) =>
      guard.exclusive(key, () => effect(key), { scope: "tenant", waitMs: 0 }).then(() => "ran alone"),
  }),
  "guard.claim": (guard, effect) => ({
    subject: plain,
    async deliver(key) {
      const claim = await guard.claim(plain(key));
      if (claim.status !== "claimed") return claim.status;
      effect(key);
      return `claimed, ${(await claim.complete(7)).status}`;
    },
  }),
  protect: (guard, effect) => ({
    subject: plain,
    deliver: (key) =>
      protect(guard, { ...plain(key), key: () => key }, () => effect(key)).then(() => "answered"),
  }),
  "tryProtect with dead letters and a fallback": (guard, effect) => ({
    subject: plain,
    deliver: async (key) =>
      (
        await tryProtect(
          guard,
          { ...plain(key), key: () => key, deadLetters: () => {}, fallback: () => "nothing" },
          () => effect(key),
        )
      ).outcome,
  }),
  protectedFunction: (guard, effect) => {
    const charge = protectedFunction(guard, (key: string) => effect(key), {
      operation: "charge",
      scope: "tenant",
      keyFrom: [0],
    });
    return { subject: plain, deliver: (key) => charge(key).then(() => "answered") };
  },
  "replay of a dead letter": (guard, effect) => {
    const letter = (key: string) => ({
      id: `letter-${key}`,
      operation: "charge",
      scope: "tenant",
      key,
      error: { name: "Error", message: "declined" },
      attempts: 1,
      replays: 0,
      failedAt: 0,
    });
    return {
      subject: (key) => ({ ...reserved("dead-letter"), scope: "tenant", key: `letter-${key}|#0` }),
      async deliver(key) {
        return (await replay(guard, letter(key), () => effect(key))).outcome;
      },
    };
  },
};

/** Claims whose work is done elsewhere: on a store, not on a guard. */
export const claimsDoor =
  (store: Parameters<typeof createClaims>[0]["store"]): OpenDoor =>
  (_guard, effect) => {
    const claims = createClaims({ store, namespace: "trial" });
    return {
      subject: plain,
      async deliver(key) {
        const claim = await claims.claim(plain(key));
        if (claim.status !== "new") return claim.status;
        effect(key);
        return `new, ${await claims.complete({ ...claim, value: 7 })}`;
      },
    };
  };
