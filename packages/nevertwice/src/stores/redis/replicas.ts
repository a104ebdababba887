/** Steps that count only once enough replicas have them: WAIT, right behind the step, on the same connection. */
import { NevertwiceError } from "../../core/errors.ts";
import type { RedisLink } from "./link.ts";

type Evaluate = RedisLink["evaluate"];

export interface Replication {
  readonly replicas: number;
  readonly timeoutMs: number;
}

/** Fails with `unavailable` where too few replicas answered: the step is done here, and is to be repeated. */
export function evaluateReplicated(link: RedisLink, { replicas, timeoutMs }: Replication): Evaluate {
  let losses = 0;
  let waiting: Promise<number> | undefined;
  link.onLost(() => losses++);

  async function wait(): Promise<number> {
    const before = losses;
    const [master] = await link.masters();
    const count = await master?.send("WAIT", String(replicas), String(timeoutMs));
    // A new connection has nothing to wait for, and says at once that all replicas have it.
    return losses === before ? Number(count) : 0;
  }

  /** One for all steps that were sent in this turn: it waits for everything before it. */
  function waitTogether(): Promise<number> {
    waiting ??= new Promise((resolve) => {
      queueMicrotask(() => {
        waiting = undefined;
        resolve(wait());
      });
    });
    return waiting;
  }

  return async (command, args) => {
    const [answers, count] = await Promise.all([link.evaluate(command, args), waitTogether()]);
    if (count >= replicas || !hasWritten(answers)) return answers;
    throw new NevertwiceError(
      "unavailable",
      `${count} of ${replicas} replicas had the step after ${timeoutMs} ms, so it does not count yet.`,
    );
  };
}

/** Whether some answer promises something: a claim that was granted, a step that was taken. */
function hasWritten(answers: unknown): boolean {
  return (answers as readonly unknown[]).some((answer) =>
    Array.isArray(answer) ? answer[0] === "new" : Number(answer) === 1,
  );
}
