/** What the demo counts, from outside: what was sent, what was really done, and what was done twice. */

/** An order was sent, its work begun, cut off before it was answered, and answered to a customer. */
export interface Tally {
  sent(): void;
  /** The shop begins the work for a key. */
  begun(key: string): void;
  /** The work had its effect, once more. */
  effect(kind: string, key: string): void;
  /** The shop died in the middle of it: whoever comes next may begin again. */
  cutOff(key: string): void;
  answered(key: string, answer: string): void;
  refused(): void;
  gaveUp(): void;
  readonly figures: Figures;
}

export interface Figures {
  requestsSent: number;
  effectsMade: number;
  /** Begun again although nothing had cut it off, an effect that was there already, or another answer for one key. */
  duplicates: number;
  /** Begun again after the shop had died in the middle. */
  secondTries: number;
  /** Another request under a key that was used. */
  conflictsRefused: number;
  gaveUp: number;
}

export function createTally(): Tally {
  const runs = new Map<string, { begun: number; cutOff: number }>();
  const effects = new Set<string>();
  const answers = new Map<string, string>();
  const figures: Figures = {
    requestsSent: 0,
    effectsMade: 0,
    duplicates: 0,
    secondTries: 0,
    conflictsRefused: 0,
    gaveUp: 0,
  };

  function runOf(key: string): { begun: number; cutOff: number } {
    const known = runs.get(key) ?? { begun: 0, cutOff: 0 };
    runs.set(key, known);
    return known;
  }

  return {
    figures,
    sent: () => void figures.requestsSent++,
    begun(key) {
      const run = runOf(key);
      run.begun++;
      if (run.begun === 1) return;
      if (run.begun <= run.cutOff + 1) figures.secondTries++;
      else figures.duplicates++;
    },
    effect(kind, key) {
      const name = `${kind} ${key}`;
      if (effects.has(name)) figures.duplicates++;
      effects.add(name);
      figures.effectsMade++;
    },
    cutOff: (key) => void runOf(key).cutOff++,
    answered(key, answer) {
      const known = answers.get(key) ?? answer;
      if (known !== answer) figures.duplicates++;
      answers.set(key, known);
    },
    refused: () => void figures.conflictsRefused++,
    gaveUp: () => void figures.gaveUp++,
  };
}
