/**
 * The `require` option: the fault that the store must survive. It is checked before the first claim, before every claim
 * until it is met, and again after the store has reconnected.
 */
import { canShareAcrossCalls } from "#platform";
import { diagnose } from "./doctor.ts";
import { FAULTS, type Fault, formatAdvice } from "./durability.ts";
import { NevertwiceError } from "./errors.ts";
import type { Store } from "./store.ts";

export interface Requirement {
  readonly isMet: boolean;
  /** Resolves if the store survives the required fault; throws `store-unsafe` if it does not. */
  meet(): Promise<void>;
}

/** The part of a store that is asked. */
type RequiredStore = Parameters<typeof diagnose>[0] & Pick<Store, "reconnects">;

export function createRequirement(store: RequiredStore, required: Fault): Requirement {
  /** The value of `store.reconnects` when the requirement was last met. */
  let metAt: number | undefined;
  let checking: Promise<void> | undefined;

  async function check(): Promise<void> {
    try {
      const at = store.reconnects ?? 0;
      await demand(store, required);
      metAt = at;
    } finally {
      checking = undefined;
    }
  }

  const isMet = () => metAt === (store.reconnects ?? 0);
  return {
    get isMet() {
      return isMet();
    },
    async meet() {
      if (isMet()) return;
      // Calls that arrive during a check share its result, where the platform lets them.
      const mine = checking ?? check();
      if (canShareAcrossCalls) checking = mine;
      await mine;
    },
  };
}

async function demand(store: RequiredStore, required: Fault): Promise<void> {
  const { title, survives, refused } = await diagnose(store);
  if (refused !== undefined) throw new NevertwiceError("store-unsafe", `${title}: ${refused}`);
  for (const fault of FAULTS.slice(0, FAULTS.indexOf(required) + 1)) {
    const finding = survives[fault];
    if (finding.survives === "yes") continue;
    throw new NevertwiceError(
      "store-unsafe",
      `require: "${required}" does not hold on ${title}. ${fault}: ${finding.survives}, ${formatAdvice(finding)}.`,
    );
  }
}
