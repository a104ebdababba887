/** Bugs that lose an effect or run it twice when a process is killed, each planted as a patch of the built code. */
import type { PlantedBug } from "../testing/planted-bugs.ts";
import type { Point } from "./workers/effects/points.js";

export interface EffectBug extends PlantedBug {
  /** The subjects that must report it, by the start of their names. */
  readonly subject: string;
  /** Where to kill, so that few kills are enough. */
  readonly statements: readonly Point["statement"][];
  /** How the referee's report begins. */
  readonly report: RegExp;
}

const COMPLETED_AFTER_COMMIT = {
  name: "the record is completed after the COMMIT of the work",
  file: "transaction/transaction-runner.js",
  find: "const answer = await this.#transactions.complete(run, { id, token, ...end }, mark);",
  replace:
    'const answer = await run("COMMIT").then(() => this.#transactions.complete(run, { id, token, ...end }, undefined));',
  statements: ["complete", "commit"],
  report: /^duplicate/,
} as const;

const ONCE_COMMITTED_EARLY = {
  name: "the work of once is committed before its record",
  file: "transaction/once.js",
  find: "const answered = await transactions.complete(",
  replace:
    'await run("COMMIT"); await run("BEGIN"); await run(SAVEPOINT); const answered = await transactions.complete(',
  statements: ["complete"],
  report: /^duplicate/,
} as const;

export const EFFECT_BUGS: readonly EffectBug[] = [
  { ...COMPLETED_AFTER_COMMIT, subject: "guard.transaction, pg" },
  { ...COMPLETED_AFTER_COMMIT, subject: "guard.transaction, mysql2" },
  {
    name: "the record is completed after the COMMIT of the work",
    subject: "guard.transaction, sqlite",
    file: "stores/sqlite/transactions.js",
    find: 'if (!run(["complete",',
    replace: 'table.commit(); table.beginWriting(); if (!run(["complete",',
    statements: ["complete"],
    report: /^duplicate/,
  },
  { ...ONCE_COMMITTED_EARLY, subject: "once, pg" },
  { ...ONCE_COMMITTED_EARLY, subject: "once, mysql2" },
  {
    ...ONCE_COMMITTED_EARLY,
    subject: "once, sqlite",
    find: "? runOnConnection(answer, claim, transactions, {",
    replace: `? runOnConnection(answer, claim, { complete: (request) => {
                database.exec("COMMIT; BEGIN IMMEDIATE; SAVEPOINT nevertwice_once");
                return transactions.complete(request);
            } }, {`,
  },
  {
    name: "a step is kept before its work",
    subject: "attempt.step, pg",
    file: "core/steps.js",
    find: `const value = await work();
            // Work without a claim (\`onUnavailable: "proceed"\`) has nothing to keep its steps under.
            const result = this.#settlement.isUnclaimed ? value : await this.#keep(keepStep, name, value, position);`,
    replace: `const result = await this.#keep(keepStep, name, "kept", position);
            await work();`,
    statements: ["work"],
    report: /^lost/,
  },
  {
    name: "a takeover begins with the first step",
    subject: "attempt.step, sqlite",
    file: "core/steps.js",
    find: "this.#kept = [...(settlement.steps ?? [])];",
    replace: "this.#kept = [];",
    statements: ["step"],
    report: /^twice/,
  },
];
