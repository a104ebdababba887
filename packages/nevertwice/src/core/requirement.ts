/** What a guard requires of its store: checked before the first claim, and again before the next one until it holds. */
import { diagnose } from "./doctor.ts";
import { NevertwiceError } from "./errors.ts";
import { adviceOf, FAULTS, type Fault } from "./settings.ts";
import type { Store } from "./store.ts";

export interface Requirement {
  readonly isMet: boolean;
  /** Resolves once the store survives what it must; throws `store-unsafe` while it does not. */
  meet(): Promise<void>;
}

export function createRequirement(store: Store, required: Fault): Requirement {
  let isMet = false;
  let checking: Promise<void> | undefined;

  async function check(): Promise<void> {
    try {
      await demand(store, required);
      isMet = true;
    } finally {
      checking = undefined;
    }
  }

  return {
    get isMet() {
      return isMet;
    },
    async meet() {
      if (isMet) return;
      // Everybody who comes while it is checked shares the look.
      checking ??= check();
      await checking;
    },
  };
}

async function demand(store: Store, required: Fault): Promise<void> {
  const { title, survives, refused } = await diagnose(store);
  if (refused !== undefined) throw new NevertwiceError("store-unsafe", `${title}: ${refused}`);
  for (const fault of FAULTS.slice(0, FAULTS.indexOf(required) + 1)) {
    const finding = survives[fault];
    if (finding.survives === "yes") continue;
    throw new NevertwiceError(
      "store-unsafe",
      `require: "${required}" does not hold on ${title}. ${fault}: ${finding.survives}, ${adviceOf(finding)}.`,
    );
  }
}
