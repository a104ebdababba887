/** The tries of one message in one node: core, then shell, again if the node's retry says so, all under one claim. */
import { randomUUID } from "node:crypto";
import type { Attempt } from "../core/attempt.ts";
import { backoffMs } from "../core/backoff.ts";
import { NevertwiceError } from "../core/errors.ts";
import { createBell, type LinkedBell, pauseUnless } from "./bell.ts";
import type { Environment } from "./environment.ts";
import { effectsOf, isDenial } from "./granting.ts";
import type { Failure, Message } from "./message.ts";
import type { Arrival, NodeModel, ShellContext } from "./model.ts";
import type { Where } from "./pipeline-event.ts";
import type { Pace } from "./rate.ts";
import { isRetried, reasonOf, timeoutError } from "./reason.ts";
import { type Kept, keptOf } from "./returned.ts";

export interface Course {
  readonly environment: Environment;
  readonly node: NodeModel;
  readonly pace: Pace | undefined;
  readonly message: Message;
  /** The in-port that it came by. */
  readonly port: string;
  readonly where: Where;
  readonly claim: Attempt | undefined;
}

/** How the tries of a message ended, if not well. */
export class TriesFailed extends Error {
  readonly failure: Failure;
  /** The effect may have happened: a try in the shell was not waited for to its end. */
  readonly isUnknown: boolean;

  constructor(failure: Failure, isUnknown: boolean) {
    super(`${failure.node}: ${failure.reason}`, { cause: failure.error });
    this.failure = failure;
    this.isUnknown = isUnknown;
  }
}

export interface Done {
  readonly kept: Kept;
  readonly attempt: number;
}

/** Throws `TriesFailed`. */
export async function tryUntilDone(course: Course): Promise<Done> {
  const { environment, node, where, claim } = course;
  const { timer, tell, stopping, halted } = environment;
  const { retry } = node.contract;
  let isUnknown = false;
  for (let attempt = 0; ; attempt++) {
    const waitMs = course.pace?.take() ?? 0;
    if (waitMs > 0) await pauseUnless(timer, waitMs, [halted]);
    const end = await tryOnce(course, attempt);
    if ("returned" in end) return { kept: keptOf(node, end.returned, runOf(claim)), attempt };
    const { error } = end;
    isUnknown ||= end.isUnknown;
    const reason = reasonOf(error);
    const isTriedAgain = retry !== undefined && attempt < retry.max && isRetried(error, retry.on);
    const isLost = () => stopping.hasRung || claim?.signal.aborted === true;
    if (isTriedAgain && !isLost()) {
      const afterMs = backoffMs(retry, attempt + 1, environment.random());
      tell?.({ ...where, kind: "retrying", afterMs, attempt: attempt + 1, reason, error });
      await pauseUnless(timer, afterMs, [stopping]);
      if (!isLost()) continue;
    }
    if (isTriedAgain && stopping.hasRung) tell?.({ ...where, kind: "retry-lost", attempt, reason, error });
    const verdict = isDenial(error) ? "reject" : "later";
    const { network } = where;
    const failure = { verdict, network, node: node.name, phase: "execute", attempt, reason, error } as const;
    throw new TriesFailed(failure, isUnknown);
  }
}

/** What names this run among all of its key, also those that come after its record is gone. */
function runOf(claim: Attempt | undefined): string {
  return claim === undefined || claim.fence === 0 ? randomUUID() : String(claim.fence);
}

type End = { readonly returned: unknown } | { readonly error: unknown; readonly isUnknown: boolean };

async function tryOnce(course: Course, attempt: number): Promise<End> {
  const { environment, node, message, port, claim } = course;
  const { timer, halted } = environment;
  const { pureCore, effectShell, timeoutMs } = node.contract;
  const over = createBell([halted]);
  const { id, parents, trace } = message;
  const arrival: Arrival = { port, id, parents, trace };
  let isInShell = false;

  async function run(): Promise<unknown> {
    const deciding = (pureCore as (payload: unknown, arrival: Arrival) => unknown)(message.payload, arrival);
    const decided = await deciding;
    if (node.kind === "source") return { kind: "emit", port, payload: decided };
    // A core that came back too late starts no effect.
    over.throwIfRung();
    if (deciding instanceof Promise) claim?.signal.throwIfAborted();
    isInShell = true;
    const shell = effectShell as (decided: unknown, context: ShellContext) => unknown;
    return shell(decided, contextOf(course, arrival, attempt, over));
  }

  let cancel = () => {};
  try {
    const ran = run();
    if (timeoutMs === undefined) return { returned: await ran };
    const late = new Promise<never>((_, reject) => {
      cancel = timer.after(timeoutMs, () => {
        const error = timeoutError(timeoutMs);
        over.ring(error);
        reject(error);
      });
    });
    return { returned: await Promise.race([ran, late]) };
  } catch (error) {
    return { error, isUnknown: isInShell && over.hasRung };
  } finally {
    cancel();
    over.unlink();
  }
}

function contextOf(
  { environment, node, claim }: Course,
  arrival: Arrival,
  attempt: number,
  over: LinkedBell,
): ShellContext {
  let followed = claim;
  /** A claim that is lost ends the try; that is looked for only by those who look at the signal or use effects. */
  const signal = () => {
    if (followed !== undefined) over.follow(followed.signal);
    followed = undefined;
    return over.signal;
  };
  return {
    ...arrival,
    get effects() {
      signal();
      return effectsOf(node, environment.effects, over);
    },
    get signal() {
      return signal();
    },
    attempt,
    ...(claim === undefined ? {} : { fence: claim.fence }),
    deriveKey(name) {
      if (claim !== undefined) return claim.deriveKey(name);
      throw new NevertwiceError(
        "key-missing",
        `the node ${node.name} has no key to derive another from: declare idempotency in its contract.`,
      );
    },
    emit: (port, payload) => ({ kind: "emit", port, payload }),
    drop: (reason) => ({ kind: "drop", ...(reason === undefined ? {} : { reason }) }),
    reply: (value) => ({ kind: "reply", value }),
  };
}
