/** Counts, independently of nevertwice, how many requests were sent, how much work was done, and what was done twice. */

export interface Tally {
  sent(): void;
  /** The shop starts the work for a key. */
  started(key: string): void;
  /** The work had an effect. */
  effect(kind: string, key: string): void;
  /** The shop crashed in the middle of the work, so the next attempt may start it again. */
  crashed(key: string): void;
  answered(key: string, answer: string): void;
  refused(): void;
  gaveUp(): void;
  readonly figures: Figures;
}

export interface Figures {
  requestsSent: number;
  effectsMade: number;
  /** Work that started again without a crash, an effect that happened twice, or two different answers for one key. */
  duplicates: number;
  /** Work that started again after a crash of the shop. */
  secondTries: number;
  /** Requests that reused a key for something else. */
  conflictsRefused: number;
  gaveUp: number;
}

export function createTally(): Tally {
  const runs = new Map<string, { started: number; crashed: number }>();
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

  function findRun(key: string): { started: number; crashed: number } {
    const known = runs.get(key) ?? { started: 0, crashed: 0 };
    runs.set(key, known);
    return known;
  }

  return {
    figures,
    sent: () => void figures.requestsSent++,
    started(key) {
      const run = findRun(key);
      run.started++;
      if (run.started === 1) return;
      if (run.started <= run.crashed + 1) figures.secondTries++;
      else figures.duplicates++;
    },
    effect(kind, key) {
      const name = `${kind} ${key}`;
      if (effects.has(name)) figures.duplicates++;
      effects.add(name);
      figures.effectsMade++;
    },
    crashed: (key) => void findRun(key).crashed++,
    answered(key, answer) {
      const known = answers.get(key) ?? answer;
      if (known !== answer) figures.duplicates++;
      answers.set(key, known);
    },
    refused: () => void figures.conflictsRefused++,
    gaveUp: () => void figures.gaveUp++,
  };
}
