/** What a pipeline is told when it is started and with each message: the options, their checks and their defaults. */
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import {
  type Check,
  checkOptions,
  isClock,
  isFunction,
  isText,
  mergePolicy,
  wholeFrom,
} from "../core/policy.ts";
import type { PipelineGuard } from "./environment.ts";
import { checkDatabases } from "./granting.ts";
import type { NetworkModel } from "./model.ts";
import type { OutHandler } from "./network.ts";
import { requestOf } from "./node-key.ts";
import type { PipelineEvent } from "./pipeline-event.ts";

export interface PipelineOptions {
  /** Who takes what leaves the network, by exposed out-port. What leaves by a port that nobody takes is done. */
  readonly on?: Readonly<Record<string, OutHandler>> | undefined;
  /** What nodes with the effect `db` are handed, by name. */
  readonly databases?: Readonly<Record<string, unknown>> | undefined;
  /** What nodes with the effect `http` call; default: the platform's own. */
  readonly fetch?: typeof fetch | undefined;
  /** What nodes with the effect `time` read. */
  readonly clock?: Clock | undefined;
  /** How long `close` waits for what is under way. */
  readonly drainMs?: number | undefined;
  /** Told what becomes of each message. What it throws is dropped. */
  readonly onEvent?: ((event: PipelineEvent) => unknown) | undefined;
}

export interface PushOptions {
  /** The message's own name, the same on every delivery; default: a random one. */
  readonly id?: string | undefined;
  /** The same for all that belongs together; default: the message's id. */
  readonly trace?: string | undefined;
  /** Ends the waiting, never the work. */
  readonly signal?: AbortSignal | undefined;
}

export interface RequestOptions extends Omit<PushOptions, "signal"> {
  /** How long to wait for the reply; default: the guard's `waitMs`. */
  readonly timeoutMs?: number | undefined;
}

export const PIPELINE_DEFAULTS = { drainMs: 30_000 } as const;

const anyObject: Check = (name, value) => {
  if (typeof value === "object" && value !== null) return;
  throw new NevertwiceError("options-invalid", `${name} must be an object, by name.`);
};

const OPTION_CHECKS: Readonly<Record<string, Check>> = {
  on: anyObject,
  databases: anyObject,
  fetch: isFunction,
  clock: isClock,
  drainMs: wholeFrom(0),
  onEvent: isFunction,
};

export const PUSH_CHECKS: Readonly<Record<string, Check>> = {
  id: isText,
  trace: isText,
  signal(name, value) {
    if (value instanceof AbortSignal) return;
    throw new NevertwiceError("options-invalid", `${name} must be an AbortSignal.`);
  },
};

export const REQUEST_CHECKS = { id: isText, trace: isText, timeoutMs: wholeFrom(1) };

/** Fails with `options-invalid`. */
export function checkStart(model: NetworkModel, guard: PipelineGuard, options: PipelineOptions): void {
  checkOptions(options, OPTION_CHECKS);
  for (const [port, handler] of Object.entries(options.on ?? {})) {
    if (!model.exposed.out.has(port))
      throw new NevertwiceError(
        "options-invalid",
        `on.${port} is for no out-port of the network ${model.id}; its out-ports are ${[...model.exposed.out.keys()].join(", ") || "none"}.`,
      );
    isFunction(`on.${port}`, handler);
  }
  checkDatabases(model.nodes.values(), options.databases ?? {});
  for (const node of model.nodes.values())
    if (node.contract.idempotency !== undefined) mergePolicy(guard.policy, requestOf(model.id, node, "key"));
}
