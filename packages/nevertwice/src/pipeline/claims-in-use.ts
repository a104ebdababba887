/** The claims that one delivery waits for or holds: those of its messages' keys, and of the settlements that cover them. */

/** What identifies a claim of a pipeline. */
export interface ClaimName {
  readonly operation: string;
  readonly scope: string;
  readonly key: string;
}

/** So many are compared one by one, which is cheaper than a text for each. A message that was split may have any number. */
const FEW = 8;

export class ClaimsInUse {
  readonly #few: ClaimName[] = [];
  /** How often each further claim is in use, by its text. */
  #many: Map<string, number> | undefined;

  has(claim: ClaimName): boolean {
    return this.#indexOf(claim) !== -1 || (this.#many?.has(claimText(claim)) ?? false);
  }

  /** Each call is undone by one call of `remove`. */
  add(claim: ClaimName): void {
    if (this.#few.length < FEW) {
      this.#few.push(claim);
      return;
    }
    this.#many ??= new Map();
    const text = claimText(claim);
    this.#many.set(text, (this.#many.get(text) ?? 0) + 1);
  }

  remove(claim: ClaimName): void {
    const index = this.#indexOf(claim);
    if (index === -1) {
      this.#removeFromMany(claimText(claim));
      return;
    }
    const last = this.#few.pop() as ClaimName;
    if (index < this.#few.length) this.#few[index] = last;
  }

  #removeFromMany(text: string): void {
    const left = (this.#many?.get(text) ?? 1) - 1;
    if (left === 0) this.#many?.delete(text);
    else this.#many?.set(text, left);
  }

  /** From the end: a claim is most often removed by the message that added the last one. */
  #indexOf(claim: ClaimName): number {
    const few = this.#few;
    for (let i = few.length - 1; i >= 0; i--) {
      const one = few[i] as ClaimName;
      if (one === claim || isSameClaim(one, claim)) return i;
    }
    return -1;
  }
}

function isSameClaim(one: ClaimName, other: ClaimName): boolean {
  return one.key === other.key && one.scope === other.scope && one.operation === other.operation;
}

function claimText({ operation, scope, key }: ClaimName): string {
  return JSON.stringify([operation, scope, key]);
}
