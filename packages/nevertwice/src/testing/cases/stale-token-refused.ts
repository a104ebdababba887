/** A token that does not own the record, or no longer owns it, changes nothing: the late writer gets false. */
import type { StoreRecord } from "../../core/store.ts";
import { expect } from "./expect.ts";
import type { GuaranteeCase, GuaranteeCases, Trial } from "./trial.ts";
import { type CaseAttempt, DONE, EVERY_AS, SHORT_MS } from "./work.ts";

type Scene = (trial: Trial) => Promise<CaseAttempt>;

/** Each scene returns the attempt whose steps must be refused. */
const SCENES: Readonly<Record<string, Scene>> = {
  "a key that nobody claimed": async ({ work }) => work.attempt(),
  "a key that another token has": async ({ work }) => {
    await work.begin();
    return work.attempt();
  },
  "a key that was taken over": async ({ work, outlast }) => {
    const late = await work.begin({ leaseMs: SHORT_MS });
    await outlast(SHORT_MS);
    await work.begin();
    return late;
  },
  "another token's lapsed key": async ({ work, outlast }) => {
    await work.begin({ leaseMs: SHORT_MS });
    await outlast(SHORT_MS);
    return work.attempt();
  },
  "a key that another token released": async ({ work }) => {
    await (await work.begin()).abandon("released");
    return work.attempt();
  },
};

/** The parts of a record that a refused step must not change. The remaining lease changes with time. */
function lasting(record: StoreRecord | undefined): unknown {
  if (record === undefined) return undefined;
  const { state, token, fence, number, keptUntil } = record;
  return { state, token, fence, number, keptUntil };
}

function refused(
  scene: Scene,
  steps: Readonly<Record<string, (stale: CaseAttempt) => Promise<boolean>>>,
): GuaranteeCase {
  return {
    why: "A late or foreign step that succeeds would undo what the owner does, or store another attempt's outcome.",
    async check(trial) {
      const stale = await scene(trial);
      const before = lasting(await trial.work.read());
      for (const [name, take] of Object.entries(steps)) expect(name, await take(stale), false);
      expect("the record afterwards", lasting(await trial.work.read()), before);
    },
  };
}

const everyAbandon = Object.fromEntries(
  EVERY_AS.map((as) => [`abandon as ${as}`, (stale: CaseAttempt) => stale.abandon(as)]),
);

function refusedIn([where, scene]: [string, Scene]): [string, GuaranteeCase][] {
  return [
    [`complete is refused on ${where}`, refused(scene, { complete: (stale) => stale.complete() })],
    [`renew is refused on ${where}`, refused(scene, { renew: (stale) => stale.renew() })],
    [`abandon is refused on ${where}`, refused(scene, everyAbandon)],
  ];
}

const released: Scene = async ({ work }) => {
  const owner = await work.begin();
  await owner.abandon("released");
  return owner;
};

export const staleTokenRefused: GuaranteeCases = {
  ...Object.fromEntries(Object.entries(SCENES).flatMap(refusedIn)),
  "a token is recognised on its own key alone": {
    why: "A step that looks for the token and not for the key would change another key's record.",
    async check({ work, another }) {
      const { token } = await work.begin();
      const stranger = another();
      await stranger.begin();
      const astray = stranger.attempt(token);
      expect("complete on another key", await astray.complete(), false);
      expect("renew on another key", await astray.renew(), false);
      expect("abandon on another key", await astray.abandon("released"), false);
      expect("the token's own record", await work.record(), { state: "pending" });
    },
  },
  "complete is refused on a key that another token completed": {
    why: "An outcome that callers have received must not change.",
    async check({ work }) {
      await (await work.begin()).complete();
      expect("complete by another token", await work.attempt().complete("stale"), false);
      expect("the record", await work.record(), { state: "completed", outcome: DONE });
    },
  },
  "complete is refused after its own token released the key": refused(released, {
    complete: (owner) => owner.complete(),
  }),
  "renew is refused after its own token released the key": refused(released, {
    renew: (owner) => owner.renew(),
  }),
  ...Object.fromEntries(
    EVERY_AS.map((as): [string, GuaranteeCase] => [
      `a token that abandoned as ${as} can no longer claim`,
      {
        why: "A late duplicate of its claim would take back the key that it released.",
        async check({ work }) {
          const owner = await work.begin();
          await owner.abandon(as);
          const before = lasting(await work.read());
          expect("the claim repeated", await owner.claim(), { status: "pending", leaseLeftMs: 0 });
          expect("the record afterwards", lasting(await work.read()), before);
        },
      },
    ]),
  ),
  "a token that abandoned as unknown can no longer renew": {
    why: "A late renewal would hide for one more lease that the outcome is unknown.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.abandon("unknown");
      expect("renew after abandon as unknown", await owner.renew(), false);
    },
  },
  "a token that took over and abandoned as unrun can no longer renew": {
    why: "It never ran, so there is nothing to hold the key for.",
    async check({ work, outlast }) {
      await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const successor = await work.begin();
      await successor.abandon("unrun");
      expect("renew after abandon as unrun", await successor.renew(), false);
    },
  },
  "forget by a fence that is no longer current is refused": {
    needs: ["forget"],
    why: "The operator erases the record that they saw. Since then the key may have been claimed and completed again.",
    async check({ work, pass }) {
      const first = await work.begin();
      await first.abandon("released");
      await pass(SHORT_MS);
      await (await work.begin()).complete();
      expect("forget by the first fence", await work.forget(first.fence), false);
      expect("the record", await work.record(), { outcome: DONE });
    },
  },
  "a token whose outcome was reopened can no longer claim": {
    needs: ["forget"],
    why: "A late duplicate of its claim would own the key again, and its work would never run.",
    async check({ work }) {
      const owner = await work.begin();
      await owner.complete();
      await work.reopen(owner.fence);
      expect("the claim repeated", await owner.claim(), { status: "pending", leaseLeftMs: 0 });
      expect("another token's claim", await work.attempt().claim(), { status: "new" });
    },
  },
  "the token of a forgotten attempt completes nothing": {
    needs: ["forget"],
    why: "A late completion must not bring back what was erased.",
    async check({ work, outlast }) {
      const owner = await work.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      await work.forget(owner.fence);
      expect("complete by the forgotten attempt", await owner.complete(), false);
      expect("the record", await work.read(), undefined);
    },
  },
};
