/** The options of a pipeline, of `push` and of `request`: their checks and their defaults. */
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";
import { type Check, checkOptions, isClock, isFunction, isText, wholeFrom } from "../core/option-checks.ts";
import { mergePolicy } from "../core/policy.ts";
import { checkDatabases } from "./effect-grants.ts";
import type { NetworkModel } from "./model.ts";
import type { PipelineGuard } from "./network-context.ts";
import { nodePolicies } from "./node-key.ts";
import type { PipelineEvent } from "./pipeline-event.ts";
import type { OutHandler } from "./routes.ts";

/** Options of `definition.start`. */
export interface PipelineOptions {
  /** Handlers of the messages that leave the network, by exposed out-port. Without a handler, such a message is done. */
  readonly on?: Readonly<Record<string, OutHandler>> | undefined;
  /** Databases for nodes with the effect `db`, by name. */
  readonly databases?: Readonly<Record<string, unknown>> | undefined;
  /** The `fetch` for nodes with the effect `http`. Default: the global one. */
  readonly fetch?: typeof fetch | undefined;
  /** The clock for nodes with the effect `time`. Default: the system clock. */
  readonly clock?: Clock | undefined;
  /**
   * How long `close` waits for messages that are in the network.
   * @default 30_000 (30 s)
   */
  readonly drainMs?: number | undefined;
  /** Called with each event. What it throws is ignored. */
  readonly onEvent?: ((event: PipelineEvent) => unknown) | undefined;
}

/** Options of `pipeline.push`. */
export interface PushOptions {
  /** The message's id, the same on every delivery. Default: a random one. */
  readonly id?: string | undefined;
  /** Shared by messages that belong together. Default: the message's id. */
  readonly trace?: string | undefined;
  /** Ends the wait, never the work. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `pipeline.request`. */
export interface RequestOptions extends Omit<PushOptions, "signal"> {
  /** How long to wait for the reply. Default: the guard's `waitMs`. */
  readonly timeoutMs?: number | undefined;
}

export const PIPELINE_DEFAULTS = { drainMs: 30_000 } as const;

const anyObject: Check = (name, value) => {
  if (typeof value === "object" && value !== null) return;
  throw new NevertwiceError("options-invalid", `${name} must be an object.`);
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

/** Throws `options-invalid`. */
export function checkStart(model: NetworkModel, guard: PipelineGuard, options: PipelineOptions): void {
  checkOptions(options, OPTION_CHECKS);
  for (const [port, handler] of Object.entries(options.on ?? {})) {
    if (!model.exposed.out.has(port))
      throw new NevertwiceError(
        "options-invalid",
        `on.${port} does not name an out-port of the network ${model.id}; its out-ports are ${[...model.exposed.out.keys()].join(", ") || "none"}.`,
      );
    isFunction(`on.${port}`, handler);
  }
  checkDatabases(model.nodes.values(), options.databases ?? {});
  for (const node of model.nodes.values())
    if (node.contract.idempotency !== undefined) mergePolicy(guard.policy, nodePolicies(node));
}
