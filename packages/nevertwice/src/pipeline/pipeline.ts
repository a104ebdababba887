/** A running network, from its start to its end: messages are pushed in, requests answered, and events reported. */
import { systemClock, systemTimer, type Timer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { harmless } from "../core/observer.ts";
import { checkOptions } from "../core/option-checks.ts";
import type { InboxPlace } from "./inbox.ts";
import { createMessage, type Message } from "./message.ts";
import { type PushOutcome, toOutcome } from "./message-outcome.ts";
import type { Kind, NetworkModel, PortRef } from "./model.ts";
import { eventPlace, type NetworkContext, type PipelineGuard, stoppingFailure } from "./network-context.ts";
import { type Requested, sendRequest } from "./network-request.ts";
import {
  checkStart,
  PIPELINE_DEFAULTS,
  type PipelineOptions,
  PUSH_CHECKS,
  type PushOptions,
  REQUEST_CHECKS,
  type RequestOptions,
} from "./pipeline-options.ts";
import { createScheduler } from "./scheduler.ts";
import { createSettlementGuards } from "./settlement-guards.ts";
import { startSources } from "./sources.ts";
import { createStopSignal } from "./stop-signal.ts";

/** How a pipeline is doing. */
export interface Health {
  /** Whether it takes messages. */
  readonly status: "running" | "stopping" | "stopped";
  /** Why the network stopped by itself. */
  readonly error?: unknown;
  /** How many messages from outside are not settled yet. */
  readonly underWay: number;
  /** How each node is doing, by its name. */
  readonly nodes: Readonly<Record<string, NodeHealth>>;
}

/** How a node is doing. */
export interface NodeHealth {
  /** What the node does. */
  readonly kind: Kind;
  /** How many messages wait in front of it. */
  readonly waiting: number;
  /** How many messages it processes now. */
  readonly active: number;
  /** How often it was restarted, if it is a source. */
  readonly restarts: number;
}

/** A network that runs in this process. */
export interface Pipeline {
  /**
   * Resolves when the message and everything that was emitted from it have ended. Then acknowledge it, or have it sent
   * again, as the verdict says.
   */
  push(port: string, payload: unknown, options?: PushOptions): Promise<PushOutcome>;
  /** Pushes a message and returns what a node replied. A duplicate gets the stored reply. */
  request(port: string, payload: unknown, options?: RequestOptions): Promise<Requested>;
  /** How the network and its nodes are doing now. */
  health(): Health;
  /** Resolves when all sources have ended and every message is settled. */
  idle(): Promise<void>;
  /** Takes no more messages, waits up to `drainMs` for those in the network, and returns the unfinished ones. The guard stays open. */
  close(): Promise<readonly Pick<PushOutcome, "id" | "trace">[]>;
}

/** The ports that a test replaces. */
export interface PipelinePorts {
  readonly timer: Timer;
  readonly random: () => number;
}

const SYSTEM_PORTS: PipelinePorts = { timer: systemTimer, random: Math.random };

/** Throws `options-invalid` on bad options. */
export function startPipeline(
  model: NetworkModel,
  guard: PipelineGuard,
  options: PipelineOptions = {},
  ports: PipelinePorts = SYSTEM_PORTS,
): Pipeline {
  checkStart(model, guard, options);
  const {
    on = {},
    databases = {},
    clock = systemClock,
    drainMs = PIPELINE_DEFAULTS.drainMs,
    onEvent,
  } = options;
  const { timer, random } = ports;
  const stopping = createStopSignal();
  const halted = createStopSignal();
  const network = model.id;
  const context: NetworkContext = {
    network,
    guard,
    settlementGuard: createSettlementGuards(guard),
    timer,
    random,
    effects: { fetch: options.fetch ?? fetch, databases, clock, random },
    report: onEvent && ((event) => void harmless(() => onEvent(event))),
    stopping,
    halted,
  };
  const { report } = context;
  const scheduler = createScheduler(model, context, on);
  const unsettled = new Set<Message>();
  let onDrained = () => {};
  let failure: { readonly error: unknown } | undefined;
  let closing: Promise<readonly Pick<PushOutcome, "id" | "trace">[]> | undefined;
  let isClosed = false;

  /** Counts a message as unsettled until its outcome is there. */
  async function follow(message: Message, placing: Promise<InboxPlace>): Promise<PushOutcome> {
    unsettled.add(message);
    try {
      const { reply: _, ...outcome } = await (await placing).outcome;
      const { id, trace, parents } = message;
      report?.({ kind: "settled", network, id, parents, trace, verdict: outcome.verdict });
      return { id, trace, ...outcome };
    } finally {
      unsettled.delete(message);
      if (unsettled.size === 0) onDrained();
    }
  }

  function enter(port: string, message: Message, signal?: AbortSignal): Promise<PushOutcome> {
    const to = findInPort(model, port);
    const { id, trace } = message;
    if (stopping.hasFired) {
      const { reply: _, ...refused } = toOutcome(stoppingFailure(context, to.node));
      return Promise.resolve({ id, trace, ...refused });
    }
    report?.({ ...eventPlace(context, to.node, message), kind: "entered", port });
    return follow(message, scheduler.deliver(to, message, signal));
  }

  async function drain(): Promise<readonly Pick<PushOutcome, "id" | "trace">[]> {
    stopping.fire(new Error("the network stops"));
    scheduler.stop();
    await new Promise<void>((resolve) => {
      const cancel = timer.after(drainMs, resolve);
      onDrained = () => {
        cancel();
        resolve();
      };
      if (unsettled.size === 0) onDrained();
    });
    halted.fire(new Error("the network has stopped"));
    const left = [...unsettled].map(({ id, trace }) => ({ id, trace }));
    scheduler.halt();
    isClosed = true;
    if (failure === undefined) report?.({ kind: "stopped", network });
    return left;
  }

  function close(): Promise<readonly Pick<PushOutcome, "id" | "trace">[]> {
    closing ??= drain();
    return closing;
  }

  const sources = startSources(model, {
    context,
    deliver: scheduler.deliver,
    follow,
    giveUp(node, error) {
      failure = { error };
      report?.({ kind: "stopped", network, node, error });
      void close();
    },
  });

  return {
    async push(port, payload, push = {}) {
      checkOptions(push, PUSH_CHECKS);
      push.signal?.throwIfAborted();
      return unlessAborted(enter(port, createMessage(payload, push), push.signal), push.signal);
    },
    async request(port, payload, request = {}) {
      checkOptions(request, REQUEST_CHECKS);
      const { timeoutMs = guard.policy.waitMs } = request;
      return sendRequest(context, timeoutMs, (waiter) => {
        const message = createMessage(payload, request, waiter);
        return { message, outcome: enter(port, message) };
      });
    },
    health() {
      const nodes = [...model.nodes.values()].map(({ name, kind }) => {
        const restarts = sources.restarts.get(name) ?? 0;
        return [name, { kind, ...scheduler.counts(name), restarts }] as const;
      });
      const status = isClosed ? "stopped" : stopping.hasFired ? "stopping" : "running";
      return { status, ...failure, underWay: unsettled.size, nodes: Object.fromEntries(nodes) };
    },
    async idle() {
      await sources.ended;
      while (unsettled.size > 0) await whenDrained();
      await closing;
    },
    close,
  };

  function whenDrained(): Promise<void> {
    return new Promise((resolve) => {
      const previous = onDrained;
      onDrained = () => {
        previous();
        resolve();
      };
    });
  }
}

function findInPort({ id, exposed }: NetworkModel, port: string): PortRef {
  const ref = exposed.in.get(port);
  if (ref !== undefined) return ref;
  const names = [...exposed.in.keys()].join(", ") || "none";
  throw new NevertwiceError(
    "options-invalid",
    `the network ${id} has no in-port ${JSON.stringify(port)}; its in-ports are ${names}.`,
  );
}

/** An aborted caller stops waiting. The message continues. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const end = () => reject(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}
