/** Bugs that lose an effect or run it twice when a process is killed, each planted as a patch of the built code. */
import type { PlantedBug } from "../testing/planted-bugs.ts";
import type { Phase, Point } from "./workers/effects/points.js";

export interface EffectBug extends PlantedBug {
  /** The subjects that must report it, by the start of their names. */
  readonly subject: string;
  /** Where to kill, so that few kills are enough. */
  readonly statements: readonly Point["statement"][];
  readonly phases?: readonly Phase[];
  /** How the referee's report begins. */
  readonly report: RegExp;
}

/** Commits the work, and only then writes what belongs to it. */
const AFTER_COMMIT = `await run("COMMIT");
        const noMark = "step" in this.#written ? "" : undefined;
        const answer = await this.#write({ run, commits: false }, this.#written, noMark);`;

const COMPLETED_AFTER_COMMIT = {
  name: "the record is completed after the COMMIT of the work",
  file: "transaction/transaction-runner.js",
  find: "const answer = await this.#write(last, this.#written, mark);",
  replace: AFTER_COMMIT,
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

/** Each database has a statement of its own that keeps the order. */
const OVERTAKEN = {
  name: "a message overtakes an older one that is in delivery or waits for its next attempt",
  statements: ["delivery", "outbox"],
  report: /^order/,
} as const;

export const EFFECT_BUGS: readonly EffectBug[] = [
  { ...COMPLETED_AFTER_COMMIT, subject: "guard.transaction, pg" },
  { ...COMPLETED_AFTER_COMMIT, subject: "guard.transaction, mysql2" },
  {
    name: "the record is completed after the COMMIT of the work",
    subject: "guard.transaction, sqlite",
    file: "stores/sqlite/transactions.js",
    find: "if (!run(toCall(id, token, end.value)))",
    replace: "table.commit(); table.beginWriting(); if (!run(toCall(id, token, end.value)))",
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
            return this.#settlement.isUnclaimed ? value : this.#keep(keepStep, name, value, position);`,
    replace: `const kept = await this.#keep(keepStep, name, "kept", position);
            await work();
            return kept;`,
    statements: ["work"],
    report: /^lost: step/,
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
  {
    name: "a step is kept after the COMMIT of its work",
    subject: "attempt.step with a database, pg",
    file: "transaction/transaction-runner.js",
    find: "const answer = await this.#write(last, this.#written, mark);",
    replace: AFTER_COMMIT,
    statements: ["commit"],
    report: /^duplicate/,
  },
  {
    name: "a step is undone before the decision is kept",
    subject: "saga, pg",
    file: "saga/saga-attempt.js",
    find: "return failure && this.#decide(",
    replace: `if (failure) await step.undo?.({ ...this.#context("undo", step), outcome: undefined, error: failure.error });
        return failure && this.#decide(`,
    statements: ["step"],
    report: /undone before the decision was kept/,
  },
  {
    name: "an attempt after a crash goes forward, whatever was decided",
    subject: "saga, sqlite",
    file: "saga/saga-attempt.js",
    find: "return decision === undefined ? this.#forward() : this.#backward(decision);",
    replace: "return this.#forward();",
    statements: ["step", "work"],
    report: /began after the decision to undo/,
  },
  {
    name: "a message is deleted before it is delivered",
    subject: "outbox, sqlite",
    file: "outbox/relay.js",
    find: "const answer = deliver(message, { signal: controller.signal, attempt: attempts });",
    replace: `settlements.add(current, { kind: "delivered" });
            settlements.flush();
            const wait = new Promise((go) => setTimeout(go, 20));
            const answer = wait.then(() => deliver(message, { signal: controller.signal, attempt: attempts }));`,
    statements: ["delivery"],
    phases: ["before"],
    report: /^lost: a message/,
  },
  {
    ...OVERTAKEN,
    subject: "outbox, pg",
    file: "outbox/postgres-sql.js",
    find: "AND x.key = k.key\n",
    replace: "AND x.key = k.key AND x.due_at <= extract(epoch FROM clock_timestamp()) * 1e6\n",
  },
  {
    ...OVERTAKEN,
    subject: "outbox, mysql2",
    file: "outbox/mysql-sql.js",
    find: "AND x.seq < c.seq ORDER BY",
    replace: "AND x.seq < c.seq AND x.due_at <= 1 ORDER BY",
  },
  {
    ...OVERTAKEN,
    subject: "outbox, sqlite",
    file: "outbox/sqlite-sql.js",
    find: "AND x.seq < c.seq)",
    replace: "AND x.seq < c.seq AND x.due_at <= 1)",
  },
];
