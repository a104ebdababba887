/** A network at work: what is pushed in, asked of it, and told about it, from its start to its end. */
import { randomUUID } from "node:crypto";
import { systemClock, systemTimer, type Timer } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { harmless } from "../core/observer.ts";
import { checkOptions } from "../core/policy.ts";
import { ask, type Requested } from "./asking.ts";
import { createBell } from "./bell.ts";
import { type Environment, type PipelineGuard, stopped } from "./environment.ts";
import type { Placed } from "./inbox.ts";
import { type Message, type PushOutcome, unsettled, type Waiter } from "./message.ts";
import type { Kind, NetworkModel, PortRef } from "./model.ts";
import { createNetwork } from "./network.ts";
import {
  checkStart,
  PIPELINE_DEFAULTS,
  type PipelineOptions,
  PUSH_CHECKS,
  type PushOptions,
  REQUEST_CHECKS,
  type RequestOptions,
} from "./pipeline-options.ts";
import { startSources } from "./source.ts";

export interface Health {
  readonly status: "running" | "stopping" | "stopped";
  /** Why it stopped by itself. */
  readonly error?: unknown;
  /** Messages that came from outside and are not settled. */
  readonly underWay: number;
  readonly nodes: Readonly<Record<string, NodeHealth>>;
}

export interface NodeHealth {
  readonly kind: Kind;
  readonly waiting: number;
  readonly active: number;
  readonly restarts: number;
}

export interface Pipeline {
  /** Resolves when the message and all that came of it are settled: acknowledge it then, or have it sent again. */
  push(port: string, payload: unknown, options?: PushOptions): Promise<PushOutcome>;
  /** Pushes, and answers what a node replied; a duplicate gets the reply that was kept. */
  request(port: string, payload: unknown, options?: RequestOptions): Promise<Requested>;
  health(): Health;
  /** Resolves when all sources have come to their ends and nothing is under way. */
  idle(): Promise<void>;
  /** Takes nothing more, waits `drainMs` for what is under way, and answers what it left. The guard stays open. */
  close(): Promise<readonly Pick<PushOutcome, "id" | "trace">[]>;
}

/** The ports that a test replaces. */
export interface PipelinePorts {
  readonly timer: Timer;
  readonly random: () => number;
}

const SYSTEM_PORTS: PipelinePorts = { timer: systemTimer, random: Math.random };

/** Fails with `options-invalid` at once on bad options. */
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
  const stop = createBell();
  const halt = createBell();
  const network = model.id;
  const base: Omit<Environment, "dispatch"> = {
    network,
    guard,
    timer,
    random,
    effects: { fetch: options.fetch ?? fetch, databases, clock, random },
    tell: onEvent && ((event) => void harmless(() => onEvent(event))),
    stopping: stop,
    halted: halt,
  };
  const { tell } = base;
  const { inboxes, dispatch } = createNetwork(model, base, on);
  const environment: Environment = { ...base, dispatch };
  const underWay = new Set<Message>();
  let onDrained = () => {};
  let failure: { readonly error: unknown } | undefined;
  let closing: Promise<readonly Pick<PushOutcome, "id" | "trace">[]> | undefined;
  let isClosed = false;

  /** Keeps a message in the books until it is settled. */
  async function follow(message: Message, placing: Promise<Placed>): Promise<PushOutcome> {
    underWay.add(message);
    try {
      const { reply: _, ...settled } = await (await placing).settled;
      const { id, trace, parents } = message;
      tell?.({ kind: "settled", network, id, parents, trace, verdict: settled.verdict });
      return { id, trace, ...settled };
    } finally {
      underWay.delete(message);
      if (underWay.size === 0) onDrained();
    }
  }

  function enter(port: string, message: Message, signal?: AbortSignal): Promise<PushOutcome> {
    const ref = portNamed(model, port);
    const { id, trace } = message;
    if (stop.hasRung) {
      const { reply: _, ...refused } = unsettled(stopped(environment, ref.node));
      return Promise.resolve({ id, trace, ...refused });
    }
    const inbox = inboxes.get(ref.node);
    if (inbox === undefined) throw new TypeError(`${ref.node} is no node`);
    return follow(message, inbox.put(ref.port, message, signal));
  }

  async function drain(): Promise<readonly Pick<PushOutcome, "id" | "trace">[]> {
    stop.ring(new Error("the network stops"));
    for (const inbox of inboxes.values()) inbox.pump();
    await new Promise<void>((resolve) => {
      const cancel = timer.after(drainMs, resolve);
      onDrained = () => {
        cancel();
        resolve();
      };
      if (underWay.size === 0) onDrained();
    });
    halt.ring(new Error("the network has stopped"));
    const left = [...underWay].map(({ id, trace }) => ({ id, trace }));
    for (const inbox of inboxes.values()) inbox.halt();
    isClosed = true;
    if (failure === undefined) tell?.({ kind: "stopped", network });
    return left;
  }

  function close(): Promise<readonly Pick<PushOutcome, "id" | "trace">[]> {
    closing ??= drain();
    return closing;
  }

  const sources = startSources(model, {
    environment,
    inboxOf: (node) => inboxes.get(node) as NonNullable<ReturnType<typeof inboxes.get>>,
    messageOf: ({ payload, id, trace }) => newMessage(payload, { id, trace }),
    follow,
    giveUp(node, error) {
      failure = { error };
      tell?.({ kind: "stopped", network, node, error });
      void close();
    },
  });

  return {
    async push(port, payload, push = {}) {
      checkOptions(push, PUSH_CHECKS);
      push.signal?.throwIfAborted();
      return unlessFired(enter(port, newMessage(payload, push), push.signal), push.signal);
    },
    async request(port, payload, request = {}) {
      checkOptions(request, REQUEST_CHECKS);
      const { timeoutMs = guard.policy.waitMs } = request;
      return ask(environment, timeoutMs, (waiter) => {
        const message = newMessage(payload, request, waiter);
        return { message, outcome: enter(port, message) };
      });
    },
    health() {
      const nodes = [...model.nodes.values()].map(({ name, kind }) => {
        const counts = inboxes.get(name)?.counts() ?? { waiting: 0, active: 0 };
        return [name, { kind, ...counts, restarts: sources.restarts.get(name) ?? 0 }] as const;
      });
      const status = isClosed ? "stopped" : stop.hasRung ? "stopping" : "running";
      return { status, ...failure, underWay: underWay.size, nodes: Object.fromEntries(nodes) };
    },
    async idle() {
      await sources.ended;
      while (underWay.size > 0) await whenDrained();
      await closing;
    },
    close,
  };

  function whenDrained(): Promise<void> {
    return new Promise((resolve) => {
      const before = onDrained;
      onDrained = () => {
        before();
        resolve();
      };
    });
  }
}

function newMessage(
  payload: unknown,
  { id = randomUUID(), trace = id }: PushOptions,
  waiter?: Waiter,
): Message {
  return { id, parents: [], trace, payload, isGroup: false, isRecovered: false, isInCare: false, waiter };
}

function portNamed({ id, exposed }: NetworkModel, port: string): PortRef {
  const ref = exposed.in.get(port);
  if (ref !== undefined) return ref;
  const names = [...exposed.in.keys()].join(", ") || "none";
  throw new NevertwiceError(
    "options-invalid",
    `the network ${id} has no in-port ${JSON.stringify(port)}; its in-ports are ${names}.`,
  );
}

/** The caller stops waiting; the message goes on. */
function unlessFired<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const end = () => reject(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}
