/** Sources at work, and what becomes of one that fails outside of a message: it is started again, within bounds. */

import { type Bell, createBell } from "./bell.ts";
import { type Environment, whereOf } from "./environment.ts";
import { effectsOf } from "./granting.ts";
import type { Inbox } from "./inbox.ts";
import type { Message, PushOutcome } from "./message.ts";
import type { NetworkModel, NodeModel, Pulled, SourceShell } from "./model.ts";

export interface Sources {
  /** How often each was started again. */
  readonly restarts: ReadonlyMap<string, number>;
  /** Resolves when all of them have come to their ends. */
  readonly ended: Promise<void>;
}

export interface SourceParts {
  readonly environment: Environment;
  readonly inboxOf: (node: string) => Inbox;
  readonly messageOf: (pulled: Pulled) => Message;
  /** Follows a message that has found its place, and answers when it is settled. */
  readonly follow: (message: Message, settled: ReturnType<Inbox["put"]>) => Promise<PushOutcome>;
  /** Called when the bounds are exceeded. */
  readonly giveUp: (node: string, error: unknown) => void;
}

export function startSources(model: NetworkModel, parts: SourceParts): Sources {
  const { environment, giveUp } = parts;
  const { timer, tell, network, stopping } = environment;
  const { strategy, restarts: allowed, withinMs } = model.supervision;
  const restarts = new Map<string, number>();
  const running = new Map<string, Bell>();
  let failedAt: number[] = [];

  /** Whether a source that failed is started again. */
  function mayRestart(node: string, error: unknown): boolean {
    const now = timer.now();
    failedAt = [...failedAt.filter((at) => now - at < withinMs), now];
    if (failedAt.length > allowed) {
      giveUp(node, error);
      return false;
    }
    restarts.set(node, (restarts.get(node) ?? 0) + 1);
    tell?.({ kind: "restarted", network, node, error });
    if (strategy === "one-for-all") for (const [name, run] of running) if (name !== node) run.ring(error);
    return true;
  }

  async function keepRunning(node: NodeModel): Promise<void> {
    // Whoever started the network has it in hand before the first message comes.
    await Promise.resolve();
    while (!stopping.hasRung) {
      const run = createBell([stopping]);
      running.set(node.name, run);
      try {
        await pull(parts, node, run);
        if (!run.hasRung) return;
      } catch (error) {
        const isAsked = run.hasRung;
        if (!isAsked && !mayRestart(node.name, error)) return;
      } finally {
        running.delete(node.name);
        // What is left of this run is told to stop.
        run.ring(new Error("this run of the source is over"));
        run.unlink();
      }
    }
  }

  const sources = [...model.nodes.values()].filter(({ kind }) => kind === "source");
  return { restarts, ended: Promise.all(sources.map(keepRunning)).then(() => {}) };
}

/** Brings messages until there are no more, or the signal fires. */
async function pull(parts: SourceParts, node: NodeModel, run: Bell): Promise<void> {
  const { signal } = run;
  const { environment, inboxOf, messageOf, follow } = parts;
  const shell = node.contract.effectShell as unknown as SourceShell;
  const effects = effectsOf(node, environment.effects, run);
  const pulls = await shell({ signal, effects });
  const iterator = Symbol.asyncIterator in pulls ? pulls[Symbol.asyncIterator]() : pulls[Symbol.iterator]();
  try {
    for (;;) {
      const next = await unlessFired(Promise.resolve(iterator.next()), signal);
      if (next === undefined || next.done) return;
      const pulled = next.value;
      const message = messageOf(pulled);
      const placed = inboxOf(node.name).put(portOf(node, pulled), message);
      const outcome = follow(message, placed);
      outcome
        .then((settled) => pulled.settled?.(settled))
        .catch((error) => {
          environment.tell?.({
            ...whereOf(environment, node.name, message),
            kind: "not-acknowledged",
            error,
          });
        });
      await placed;
    }
  } finally {
    // Not waited for: a source that hangs hangs there too.
    if (signal.aborted) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

function portOf(node: NodeModel, { port }: Pulled): string {
  if (port !== undefined && node.out.has(port)) return port;
  const [only, ...others] = node.out.keys();
  if (port === undefined && only !== undefined && others.length === 0) return only;
  throw new TypeError(
    `the source ${node.name} brought a message for ${port === undefined ? "no port" : JSON.stringify(port)}; its out-ports are ${[...node.out.keys()].join(", ")}`,
  );
}

/** Undefined as soon as the signal fires. */
function unlessFired<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  if (signal.aborted) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const end = () => resolve(undefined);
    signal.addEventListener("abort", end, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}
