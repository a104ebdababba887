/** The actions that change something. Each request is checked, gets its key's identity and digest, and joins a group that one transaction carries out. */

import type { Timer } from "../core/clock.ts";
import { type Check, checkOptions } from "../core/option-checks.ts";
import { callWithin, TimedOut } from "../core/store-call.ts";
import { type CallBatch, createBatch } from "../stores/batch.ts";
import {
  type ActionName,
  type ActionRequest,
  createActionRequest,
  findKeyProblem,
} from "./action-request.ts";
import { type Answer, type Done, type Placed, type Rejected, rejection } from "./answer.ts";
import { findWrongAnswer } from "./availability.ts";
import { MayBeWritten, type ReservationStore, type Rules } from "./store.ts";

/** The key of an action: an opaque string of up to 256 bytes, compared byte by byte. */
export interface Keyed {
  readonly key: string;
  /** The owner of the key, such as a tenant or a merchant. Without it, the key belongs to the whole namespace. */
  readonly scope?: string | undefined;
}

export interface HoldRequest extends Keyed {
  readonly resource: string;
  readonly requester: string;
  readonly durationMs: number;
  /** How many units of the resource to hold; default 1. */
  readonly units?: number | undefined;
}

export interface CommitmentRequest extends Keyed {
  readonly id: string;
}

export interface UnitsRequest extends CommitmentRequest {
  /** How many of its units; default: all of them. */
  readonly units?: number | undefined;
}

export interface ResourceRequest extends Keyed {
  readonly resource: string;
}

export interface CapacityRequest extends ResourceRequest {
  readonly capacity: number;
}

export interface Actions {
  placeHold(request: HoldRequest): Promise<Placed | Rejected>;
  /** Rejected with `window-elapsed` from `expiresAt` on, that instant included. */
  confirm(request: UnitsRequest): Promise<Done | Rejected>;
  release(request: CommitmentRequest): Promise<Done | Rejected>;
  expire(request: CommitmentRequest): Promise<Done | Rejected>;
  /** Gives back units that were confirmed: a bed that is free again, goods that were returned. */
  giveBack(request: UnitsRequest): Promise<Done | Rejected>;
  readonly resources: {
    declare(request: CapacityRequest): Promise<Done | Rejected>;
    adjust(request: CapacityRequest): Promise<Done | Rejected>;
    suspend(request: ResourceRequest): Promise<Done | Rejected>;
    resume(request: ResourceRequest): Promise<Done | Rejected>;
    close(request: ResourceRequest): Promise<Done | Rejected>;
  };
}

export interface ActionsOptions {
  readonly store: ReservationStore;
  readonly rules: Rules;
  /** How long the caller waits for an action. */
  readonly actionMs: number;
  readonly timer: Timer;
}

/** The most actions in one transaction. */
const MAX_GROUP = 64;
/** The most transactions at the same time. */
const MAX_FLIGHTS = 2;
/** How often a transaction is tried that failed, or whose result is not known. */
const TRIES = 3;

const anything: Check = () => {};
const KEYED = { key: anything, scope: anything };
const CHECKS: Readonly<Record<ActionName, Readonly<Record<string, Check>>>> = {
  placeHold: { ...KEYED, resource: anything, requester: anything, durationMs: anything, units: anything },
  confirm: { ...KEYED, id: anything, units: anything },
  release: { ...KEYED, id: anything },
  expire: { ...KEYED, id: anything },
  giveBack: { ...KEYED, id: anything, units: anything },
  declare: { ...KEYED, resource: anything, capacity: anything },
  adjust: { ...KEYED, resource: anything, capacity: anything },
  suspend: { ...KEYED, resource: anything },
  resume: { ...KEYED, resource: anything },
  close: { ...KEYED, resource: anything },
};

export function createActions(options: ActionsOptions): Actions {
  const { store, rules, actionMs, timer } = options;
  const { namespace } = rules;
  const groups: CallBatch<ActionRequest, Answer> = createBatch({
    ...createSender(store, rules),
    maxCalls: MAX_GROUP,
    maxFlights: MAX_FLIGHTS,
  });

  async function act(action: ActionName, given: Keyed): Promise<Answer> {
    checkOptions(given, CHECKS[action]);
    const { key, scope, ...parameters } = given;
    const problem = findKeyProblem(key, scope);
    if (problem !== undefined) return rejection("invalid-request", problem);
    const request = createActionRequest(action, { key, scope, namespace }, parameters);
    try {
      return await callWithin({ store: {}, timer }, actionMs, () => groups.run(request));
    } catch (error) {
      const wrongAnswer = findWrongAnswer(error);
      if (wrongAnswer !== undefined) throw wrongAnswer;
      return toRejection(error);
    }
  }

  const actionFor = (action: ActionName) => (request: Keyed) =>
    act(action, request) as Promise<Done | Rejected>;
  return {
    placeHold: (request) =>
      act("placeHold", { units: 1, ...withoutUndefined(request) }) as Promise<Placed | Rejected>,
    confirm: actionFor("confirm"),
    release: actionFor("release"),
    expire: actionFor("expire"),
    giveBack: actionFor("giveBack"),
    resources: {
      declare: actionFor("declare"),
      adjust: actionFor("adjust"),
      suspend: actionFor("suspend"),
      resume: actionFor("resume"),
      close: actionFor("close"),
    },
  };
}

/**
 * Sends actions to the store, in groups or one by one. The key of each action makes a retry safe: if the first try was
 * written, the retry returns its answer.
 */
function createSender(store: ReservationStore, rules: Rules) {
  /** Actions that may have been written, each with the answer that was decided, if the store reported it. */
  const doubts = new WeakMap<ActionRequest, readonly Answer[]>();

  function rememberDoubt(group: readonly ActionRequest[], error: unknown): void {
    if (!(error instanceof MayBeWritten)) return;
    for (const [i, request] of group.entries()) doubts.set(request, error.answers.slice(i, i + 1));
  }

  async function alone(request: ActionRequest): Promise<Answer> {
    for (let tries = 1; ; tries++) {
      try {
        const [answer] = await store.transact([request], rules);
        return answer as Answer;
      } catch (error) {
        rememberDoubt([request], error);
        if (tries < TRIES && findWrongAnswer(error) === undefined) continue;
        // This try may have written nothing, but an earlier one may have.
        const decided = doubts.get(request);
        throw decided === undefined ? error : new MayBeWritten(decided, error);
      }
    }
  }

  async function send(group: readonly ActionRequest[]): Promise<readonly Answer[]> {
    const [only] = group;
    if (only !== undefined && group.length === 1) return [await alone(only)];
    try {
      return await store.transact(group, rules);
    } catch (error) {
      rememberDoubt(group, error);
      throw error;
    }
  }

  return { send, alone };
}

function toRejection(error: unknown): Rejected {
  const detail = error instanceof Error ? rootMessage(error) : String(error);
  if (error instanceof TimedOut)
    return rejection("recording-failure", `${detail}; send it again with the same key`);
  if (!(error instanceof MayBeWritten)) return rejection("storage-failure", detail);
  return { ...rejection("recording-failure", detail), answer: error.answers[0] };
}

/** The message of the innermost cause. */
function rootMessage(error: Error): string {
  return error.cause instanceof Error ? rootMessage(error.cause) : error.message;
}

function withoutUndefined<T extends object>(request: T): T {
  return Object.fromEntries(Object.entries(request ?? {}).filter(([, value]) => value !== undefined)) as T;
}
