/** One action in a transaction of the application on Postgres: the same steps as in a transaction of the store. */
import type { RunText } from "../../core/store-transactions.ts";
import type { PostgresRow } from "../../stores/postgres/client.ts";
import { withLiterals } from "../../stores/postgres/literals.ts";
import type { ActionRequest } from "../action-request.ts";
import type { Answer } from "../answer.ts";
import { PlacedMeanwhile } from "../placed-meanwhile.ts";
import type { Statements } from "../postgres-sql.ts";
import type { Rules, StatementActions } from "../store.ts";
import { createTimeOrderedId } from "../time-ordered-id.ts";
import { escapeText, unescapeText } from "./rows.ts";
import { decideAndWrite, type SkippingContext } from "./transaction.ts";

/** How often an action is tried that met a commitment placed while it waited for a lock. */
const TRIES = 3;
const READ_COMMITTED = "read committed";

export function createActionsInside({ ready, statements, open }: SkippingContext): StatementActions {
  return {
    kind: "statements",
    // SAVEPOINT fails by itself without an open transaction.
    async prepare() {
      await ready();
      open.expect();
    },
    async act(run, request, rules) {
      for (let tries = 1; ; tries++) {
        try {
          return await actOnce(run, statements.inside, request, rules);
        } catch (error) {
          if (!(error instanceof PlacedMeanwhile) || tries === TRIES) throw error;
        }
      }
    },
  };
}

async function actOnce(
  run: RunText,
  texts: Statements["inside"],
  request: ActionRequest,
  rules: Rules,
): Promise<Answer> {
  let lockTimeout = "0";
  let isolation = READ_COMMITTED;
  const ask = async <Found>(text: string, parameters: readonly string[]) =>
    JSON.parse((await run(withLiterals(text, parameters))) as string) as Found;
  const steps = {
    async lock(parameters: readonly string[]) {
      const [previous, names] = await ask<[string, [string][]]>(texts.lock, parameters);
      lockTimeout = previous;
      return names.map(([name]) => unescapeText(name));
    },
    async read(parameters: readonly string[]) {
      const [level, rows] = await ask<[string, PostgresRow[]]>(texts.read, [...parameters, lockTimeout]);
      isolation = level;
      return rows;
    },
    write: (parameters: readonly string[]) => run(withLiterals(texts.write, parameters)),
  };
  const { answers } = await decideAndWrite(steps, { id: createTimeOrderedId(), group: [request], rules });
  const answer = answers[0] as Answer;
  const { id } = request.parameters;
  // The commitment may have been placed after the snapshot of the transaction. Then the server answers 40001.
  if (isolation !== READ_COMMITTED && isUnknown(answer) && typeof id === "string" && id.isWellFormed()) {
    const row = [rules.namespace, id].map(escapeText);
    await run(withLiterals(texts.probe, row));
    await run(withLiterals(texts.unprobe, row));
  }
  return answer;
}

function isUnknown(answer: Answer): boolean {
  return !answer.ok && answer.reason === "not-known";
}
