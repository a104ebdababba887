/** The tries of one message in one node: core, then shell, repeated as the node's [retry] allows, all under one claim. */
import { randomUUID } from "node:crypto";
import type { Attempt } from "../core/attempt.ts";
import { backoffMs } from "../core/backoff.ts";
import { NevertwiceError } from "../core/errors.ts";
import { type EffectUse, grantEffects, isDenial } from "./effect-grants.ts";
import type { Effects } from "./effects.ts";
import { failureReason, isRetryable, timeoutError } from "./failure-reason.ts";
import type { Message } from "./message.ts";
import type { Failure } from "./message-outcome.ts";
import type {
  Arrival,
  CoreContext,
  Drop,
  Emit,
  NodeConfig,
  NodeModel,
  Reply,
  ShellContext,
} from "./model.ts";
import type { NetworkContext } from "./network-context.ts";
import { type NodeOutcome, toNodeOutcome } from "./node-outcome.ts";
import type { EventPlace } from "./pipeline-event.ts";
import type { RateLimit } from "./rate-limit.ts";
import { createStopSignal, type LinkedStopSignal, pauseUntilStopped } from "./stop-signal.ts";

export interface TriesInput {
  readonly context: NetworkContext;
  readonly node: NodeModel;
  readonly rateLimit: RateLimit | undefined;
  readonly message: Message;
  /** The in-port by which the message arrived. */
  readonly port: string;
  readonly place: EventPlace;
  /** Undefined for a node without a key. */
  readonly claim: Attempt | undefined;
}

/** The last try of a message failed. */
export class TriesFailed extends Error {
  readonly failure: Failure;
  /** Whether the effect may have happened: a try was abandoned while its shell was running. */
  readonly isUnknown: boolean;

  constructor(failure: Failure, isUnknown: boolean) {
    super(`${failure.node}: ${failure.reason}`, { cause: failure.error });
    this.failure = failure;
    this.isUnknown = isUnknown;
  }
}

export interface TriesResult {
  readonly output: NodeOutcome;
  readonly attempt: number;
  /** How long all tries took, with the pauses between them. */
  readonly ranMs: number;
}

/** Throws `TriesFailed`. */
export async function runTries(input: TriesInput): Promise<TriesResult> {
  const { context, node, rateLimit, place, claim } = input;
  const { timer, report, stopping, halted } = context;
  const { retry } = node.contract;
  const startedAtMs = timer.now();
  let isUnknown = false;
  for (let attempt = 0; ; attempt++) {
    const waitMs = rateLimit?.take() ?? 0;
    if (waitMs > 0) await pauseUntilStopped(timer, waitMs, [halted]);
    const result = await tryOnce(input, attempt);
    if ("returned" in result) {
      const output = toNodeOutcome(node, result.returned, nameRun(claim));
      return { output, attempt, ranMs: timer.now() - startedAtMs };
    }
    const { error } = result;
    isUnknown ||= result.isUnknown;
    const reason = failureReason(error);
    const mayRetry = retry !== undefined && attempt < retry.max && isRetryable(error, retry.on);
    const isLost = () => stopping.hasFired || claim?.signal.aborted === true;
    if (mayRetry && !isLost()) {
      const afterMs = backoffMs(retry, attempt + 1, context.random());
      report?.({ ...place, kind: "retrying", afterMs, attempt: attempt + 1, reason, error });
      await pauseUntilStopped(timer, afterMs, [stopping]);
      if (!isLost()) continue;
    }
    if (mayRetry && stopping.hasFired) report?.({ ...place, kind: "retry-lost", attempt, reason, error });
    const verdict = isDenial(error) ? "reject" : "later";
    const { network } = place;
    const failure = { verdict, network, node: node.name, phase: "execute", attempt, reason, error } as const;
    throw new TriesFailed(failure, isUnknown);
  }
}

/** Identifies this run among all runs of its key, including runs after the key's record was removed. */
function nameRun(claim: Attempt | undefined): string {
  return claim === undefined || claim.fence === 0 ? randomUUID() : String(claim.fence);
}

type TryResult = { readonly returned: unknown } | { readonly error: unknown; readonly isUnknown: boolean };

async function tryOnce(input: TriesInput, attempt: number): Promise<TryResult> {
  const { context, node, message, port, claim } = input;
  const { timer, halted } = context;
  const { pureCore, effectShell, timeoutMs } = node.contract;
  const over = createStopSignal([halted]);
  const { id, parents, trace } = message;
  const arrival: Arrival = { port, id, parents, trace };
  let isInShell = false;

  async function run(): Promise<unknown> {
    const core = pureCore as (payload: unknown, context: CoreContext) => unknown;
    const deciding = core(message.payload, { ...arrival, config: node.config });
    const decided = await deciding;
    if (node.kind === "source") return { kind: "emit", port, payload: decided };
    // A core that returned too late starts no effect.
    over.throwIfFired();
    if (deciding instanceof Promise) claim?.signal.throwIfAborted();
    isInShell = true;
    const shell = effectShell as (decided: unknown, context: ShellContext) => unknown;
    return shell(decided, new TryContext(input, arrival, attempt, over));
  }

  let cancel = () => {};
  try {
    const running = run();
    if (timeoutMs === undefined) return { returned: await running };
    const late = new Promise<never>((_, reject) => {
      cancel = timer.after(timeoutMs, () => {
        const error = timeoutError(timeoutMs);
        over.fire(error);
        reject(error);
      });
    });
    return { returned: await Promise.race([running, late]) };
  } catch (error) {
    return { error, isUnknown: isInShell && over.hasFired };
  } finally {
    cancel();
    over.unlink();
  }
}

/** A class, so that a try makes no accessors: most shells read neither `effects` nor `signal`. */
class TryContext implements ShellContext {
  readonly port: string;
  readonly id: string;
  readonly parents: readonly string[];
  readonly trace: string;
  readonly attempt: number;
  readonly config: NodeConfig;
  readonly fence?: number;
  /** The functions are members of the object, since a shell takes them out of it: `(payload, { emit }) => …`. */
  readonly emit = emit;
  readonly drop = drop;
  readonly reply = reply;
  readonly #input: TriesInput;
  readonly #over: LinkedStopSignal;
  #toFollow: Attempt | undefined;

  constructor(
    input: TriesInput,
    { port, id, parents, trace }: Arrival,
    attempt: number,
    over: LinkedStopSignal,
  ) {
    this.port = port;
    this.id = id;
    this.parents = parents;
    this.trace = trace;
    this.attempt = attempt;
    this.config = input.node.config;
    if (input.claim !== undefined) this.fence = input.claim.fence;
    this.#input = input;
    this.#over = over;
    this.#toFollow = input.claim;
  }

  /** A lost claim ends the try. The claim's signal is followed only if the shell reads `signal` or `effects`. */
  get signal(): AbortSignal {
    if (this.#toFollow !== undefined) this.#over.follow(this.#toFollow.signal);
    this.#toFollow = undefined;
    return this.#over.signal;
  }

  get effects(): Effects {
    void this.signal;
    const { node, context, place } = this.#input;
    const { report } = context;
    const onUse = report && ((use: EffectUse) => report({ ...place, ...use, kind: "effect-used" }));
    return grantEffects(node, context.effects, this.#over, onUse);
  }

  get deriveKey(): (name: string) => string {
    const { claim, node } = this.#input;
    if (claim !== undefined) return (name) => claim.deriveKey(name);
    return () => {
      throw new NevertwiceError(
        "key-missing",
        `the node ${node.name} has no key to derive another from: declare idempotency in its contract.`,
      );
    };
  }
}

function emit(port: string, payload: unknown): Emit {
  return { kind: "emit", port, payload };
}

function drop(reason?: string): Drop {
  return reason === undefined ? { kind: "drop" } : { kind: "drop", reason };
}

function reply(value: unknown): Reply {
  return { kind: "reply", value };
}
