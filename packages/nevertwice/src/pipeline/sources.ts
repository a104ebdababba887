/** Runs the sources of a network. A source that fails outside of a message is started again, within the bounds of [supervision]. */

import { type EffectUse, grantEffects } from "./effect-grants.ts";
import { createMessage, type Message } from "./message.ts";
import type { PushOutcome } from "./message-outcome.ts";
import type { NetworkModel, NodeModel, Pulled, SourceShell } from "./model.ts";
import { eventPlace, type NetworkContext } from "./network-context.ts";
import type { Scheduler } from "./scheduler.ts";
import { createStopSignal, type StopSignal } from "./stop-signal.ts";

export interface Sources {
  /** How often each source was restarted. */
  readonly restarts: ReadonlyMap<string, number>;
  /** Resolves when all sources have ended. */
  readonly ended: Promise<void>;
}

export interface SourceParts {
  readonly context: NetworkContext;
  readonly deliver: Scheduler["deliver"];
  /** Follows a message to its end, and returns the outcome. */
  readonly follow: (message: Message, placing: ReturnType<Scheduler["deliver"]>) => Promise<PushOutcome>;
  /** Called when a source failed more often than [supervision] allows. */
  readonly giveUp: (node: string, error: unknown) => void;
}

export function startSources(model: NetworkModel, parts: SourceParts): Sources {
  const { context, giveUp } = parts;
  const { timer, report, network, stopping } = context;
  const { strategy, restarts: allowed, withinMs } = model.supervision;
  const restarts = new Map<string, number>();
  const running = new Map<string, StopSignal>();
  let failedAt: number[] = [];

  function mayRestart(node: string, error: unknown): boolean {
    const now = timer.now();
    failedAt = [...failedAt.filter((at) => now - at < withinMs), now];
    if (failedAt.length > allowed) {
      giveUp(node, error);
      return false;
    }
    restarts.set(node, (restarts.get(node) ?? 0) + 1);
    report?.({ kind: "restarted", network, node, error });
    if (strategy === "one-for-all") for (const [name, run] of running) if (name !== node) run.fire(error);
    return true;
  }

  async function keepRunning(node: NodeModel): Promise<void> {
    // The caller of `start` receives the pipeline before the first message arrives.
    await Promise.resolve();
    while (!stopping.hasFired) {
      const run = createStopSignal([stopping]);
      running.set(node.name, run);
      try {
        await pull(parts, node, run);
        if (!run.hasFired) return;
      } catch (error) {
        const wasStopped = run.hasFired;
        if (!wasStopped && !mayRestart(node.name, error)) return;
      } finally {
        running.delete(node.name);
        // Stops whatever this run of the source left behind.
        run.fire(new Error("this run of the source is over"));
        run.unlink();
      }
    }
  }

  const sources = [...model.nodes.values()].filter(({ kind }) => kind === "source");
  return { restarts, ended: Promise.all(sources.map(keepRunning)).then(() => {}) };
}

/** Delivers messages until the source ends or `run` fires. */
async function pull(parts: SourceParts, node: NodeModel, run: StopSignal): Promise<void> {
  const { signal } = run;
  const { context, deliver, follow } = parts;
  const shell = node.contract.effectShell as unknown as SourceShell;
  const { network, report } = context;
  const onUse =
    report && ((use: EffectUse) => report({ network, node: node.name, ...use, kind: "effect-used" }));
  const effects = grantEffects(node, context.effects, run, onUse);
  const pulls = await shell({ signal, effects, config: node.config });
  const iterator = Symbol.asyncIterator in pulls ? pulls[Symbol.asyncIterator]() : pulls[Symbol.iterator]();
  try {
    for (;;) {
      const next = await unlessAborted(Promise.resolve(iterator.next()), signal);
      if (next === undefined || next.done) return;
      const pulled = next.value;
      const message = createMessage(pulled.payload, pulled);
      const entry = { node: node.name, port: outPortFor(node, pulled) };
      report?.({ ...eventPlace(context, node.name, message), kind: "entered", port: entry.port });
      const placing = deliver(entry, message);
      follow(message, placing)
        .then((outcome) => pulled.settled?.(outcome))
        .catch((error) => {
          context.report?.({
            ...eventPlace(context, node.name, message),
            kind: "not-acknowledged",
            error,
          });
        });
      await placing;
    }
  } finally {
    // Not awaited: a source that hangs would hang here too.
    if (signal.aborted) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

function outPortFor(node: NodeModel, { port }: Pulled): string {
  if (port !== undefined && node.out.has(port)) return port;
  const [only, ...others] = node.out.keys();
  if (port === undefined && only !== undefined && others.length === 0) return only;
  throw new TypeError(
    `the source ${node.name} pulled a message for ${port === undefined ? "no port" : JSON.stringify(port)}; its out-ports are ${[...node.out.keys()].join(", ")}`,
  );
}

/** Resolves to undefined as soon as the signal fires. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  if (signal.aborted) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const end = () => resolve(undefined);
    signal.addEventListener("abort", end, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}
