/**
 * Waits until enough replicas have what an answer promises: WAIT, directly after the script, on the same connection. That is
 * necessary for every step that was taken, and for every completed record that is returned: its completion may be on no
 * replica yet, and then a failover would undo what the caller was shown. Such a script writes something for WAIT to wait for.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { RedisAdapter } from "./client.ts";
import type { ClientListeners } from "./client-listeners.ts";
import { isDemoted } from "./errors.ts";
import type { Evaluate, WritingConnection } from "./evaluation.ts";

export interface Replication {
  readonly replicas: number;
  readonly timeoutMs: number;
}

/** Rejects with `unavailable` if too few replicas answered; the caller may repeat the call. */
export type EvaluateOn = (connection: WritingConnection, ...script: Parameters<Evaluate>) => Promise<unknown>;

export function createReplication({ replicas, timeoutMs }: Replication): EvaluateOn {
  const waiting = new WeakMap<WritingConnection, Promise<number>>();

  async function wait({ send, losses }: WritingConnection): Promise<number> {
    const before = losses();
    try {
      const count = await send("WAIT", String(replicas), String(timeoutMs));
      // A new connection has written nothing, so WAIT would report at once that all replicas have it.
      return losses() === before ? Number(count) : 0;
    } catch (error) {
      if (isDemoted(error)) return 0;
      throw error;
    }
  }

  /** One WAIT for all steps that were sent in this turn: it waits for everything that was written before it. */
  function waitTogether(connection: WritingConnection): Promise<number> {
    const joined = waiting.get(connection);
    if (joined !== undefined) return joined;
    const started = new Promise<number>((resolve) => {
      queueMicrotask(() => {
        waiting.delete(connection);
        resolve(wait(connection));
      });
    });
    waiting.set(connection, started);
    return started;
  }

  return async (connection, command, args) => {
    const [answers, count] = await Promise.all([
      connection.evaluate(command, args),
      waitTogether(connection),
    ]);
    if (count >= replicas || !(answers as readonly unknown[]).some(mustBeReplicated)) return answers;
    throw new NevertwiceError(
      "unavailable",
      `${count} of ${replicas} replicas had the step after ${timeoutMs} ms, so it does not count yet.`,
    );
  };
}

/** For a client of one server. */
export function evaluateReplicated(
  adapter: RedisAdapter,
  { losses }: Pick<ClientListeners, "losses">,
  replication: Replication,
): Evaluate {
  const evaluateOn = createReplication(replication);
  const connection: WritingConnection = {
    evaluate: adapter.evaluate,
    send: async (...command) => (await adapter.masters())[0]?.send(...command),
    losses,
  };
  return (command, args) => evaluateOn(connection, command, args);
}

/** The text of a completed record, which READ found. */
const COMPLETED = /^\d+c/;

/** Whether an answer promises something: a claim that was granted, a step that was taken, a record that is completed. */
function mustBeReplicated(answer: unknown): boolean {
  if (!Array.isArray(answer)) return Number(answer) === 1 || COMPLETED.test(String(answer));
  const [status, state] = answer as readonly unknown[];
  return status === "new" || status === "completed" || (status === "conflict" && state === "completed");
}
