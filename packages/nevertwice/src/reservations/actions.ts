/** The actions that change something: each is checked, given its key's identity and digest, and taken to the store with others. */
import { randomUUID } from "node:crypto";
import { utf8Bytes } from "../core/bytes.ts";
import { bounded, TimedOut } from "../core/calls.ts";
import type { Timer } from "../core/clock.ts";
import { identityOf } from "../core/identity.ts";
import { type Check, checkOptions } from "../core/policy.ts";
import { type Batch, createBatch } from "../stores/batch.ts";
import { type Answer, type Done, type Placed, type Rejected, rejection } from "./answer.ts";
import { type ActionName, type Asked, digestOf, keepable, type Parameters } from "./asked.ts";
import { MayBeWritten, type ReservationStore, type Rules } from "./ledger.ts";

/** Under which key an action is asked for: up to 256 bytes, opaque, compared byte by byte. */
export interface Keyed {
  readonly key: string;
  /** Who the key belongs to: a tenant, a merchant. Without it, the key belongs to the whole namespace. */
  readonly scope?: string | undefined;
}

export interface HoldRequest extends Keyed {
  readonly resource: string;
  readonly requester: string;
  readonly durationMs: number;
  /** How much of the resource; default 1. */
  readonly units?: number | undefined;
}

export interface CommitmentRequest extends Keyed {
  readonly id: string;
}

export interface UnitsRequest extends CommitmentRequest {
  /** Some of its units; default: all of them. */
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
  /** At the very instant at which the hold's time is over it is too late. */
  confirm(request: UnitsRequest): Promise<Done | Rejected>;
  release(request: CommitmentRequest): Promise<Done | Rejected>;
  expire(request: CommitmentRequest): Promise<Done | Rejected>;
  /** Gives back what was confirmed: a bed that is free again, goods that came back. */
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
  /** How long an action may take. */
  readonly actionMs: number;
  readonly timer: Timer;
}

export const MAX_KEY_BYTES = 256;
/** Of every key of a reservation: they never meet those of guarded work. */
export const OPERATION = "nevertwice:reservation";
/** Of one transaction. */
const MAX_GROUP = 64;
const MAX_FLIGHTS = 2;
/** How often a transaction that was not written, or may not have been, is tried again under its keys. */
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
  const groups: Batch<Asked, Answer> = createBatch({
    ...sending(store, rules),
    maxCalls: MAX_GROUP,
    maxFlights: MAX_FLIGHTS,
  });

  async function act(action: ActionName, request: Keyed): Promise<Answer> {
    checkOptions(request, CHECKS[action]);
    const { key, scope, ...parameters } = request;
    const wrong = keyProblem(key, scope);
    if (wrong !== undefined) return rejection("invalid-request", wrong);
    const asked = askedOf(action, { key, scope, namespace }, parameters);
    try {
      return await bounded({ store: {}, timer }, actionMs, () => groups.run(asked));
    } catch (error) {
      return failureOf(error);
    }
  }

  const doing = (action: ActionName) => (request: Keyed) => act(action, request) as Promise<Done | Rejected>;
  return {
    placeHold: (request) =>
      act("placeHold", { units: 1, ...withoutUndefined(request) }) as Promise<Placed | Rejected>,
    confirm: doing("confirm"),
    release: doing("release"),
    expire: doing("expire"),
    giveBack: doing("giveBack"),
    resources: {
      declare: doing("declare"),
      adjust: doing("adjust"),
      suspend: doing("suspend"),
      resume: doing("resume"),
      close: doing("close"),
    },
  };
}

/** How actions reach the store, in groups or one by one. A key makes it safe to try again: if it was written, it answers. */
function sending(store: ReservationStore, rules: Rules) {
  /** The actions of which nobody knows yet whether they were written, each with what was decided, if the store said so. */
  const doubts = new WeakMap<Asked, readonly Answer[]>();

  function doubt(group: readonly Asked[], error: unknown): void {
    if (!(error instanceof MayBeWritten)) return;
    for (const [i, asked] of group.entries()) doubts.set(asked, error.answers.slice(i, i + 1));
  }

  async function alone(asked: Asked): Promise<Answer> {
    for (let tries = 1; ; tries++) {
      try {
        const [answer] = await store.transact([asked], rules);
        return answer as Answer;
      } catch (error) {
        doubt([asked], error);
        if (tries < TRIES) continue;
        // That this try wrote nothing says nothing of one before it.
        const decided = doubts.get(asked);
        throw decided === undefined ? error : new MayBeWritten(decided, error);
      }
    }
  }

  async function send(group: readonly Asked[]): Promise<readonly Answer[]> {
    const [only] = group;
    if (only !== undefined && group.length === 1) return [await alone(only)];
    try {
      return await store.transact(group, rules);
    } catch (error) {
      doubt(group, error);
      throw error;
    }
  }

  return { send, alone };
}

function askedOf(
  action: ActionName,
  { key, scope = "", namespace }: Keyed & { readonly namespace: string },
  given: Parameters,
): Asked {
  const parameters = keepable(given);
  return {
    action,
    parameters,
    digest: digestOf(action, parameters),
    keyId: identityOf({ namespace, scope, operation: OPERATION, key }).id,
    namespace,
    scope,
    key,
    newId: randomUUID(),
  };
}

/** Why this can be no key. Such a request is answered and not kept: there is nothing to keep it under. */
function keyProblem(key: unknown, scope: unknown): string | undefined {
  if (typeof key !== "string" || key === "") return "key must be text that is not empty";
  if (!key.isWellFormed()) return "key has a lone surrogate; it must be well-formed text";
  if (utf8Bytes(key) > MAX_KEY_BYTES) return `key has more than ${MAX_KEY_BYTES} bytes`;
  if (scope === undefined) return undefined;
  if (typeof scope !== "string" || scope === "" || !scope.isWellFormed())
    return "scope must be text that is not empty";
  return utf8Bytes(scope) > 1_024 ? "scope has more than 1,024 bytes" : undefined;
}

function failureOf(error: unknown): Rejected {
  const detail = error instanceof Error ? causeText(error) : String(error);
  if (error instanceof TimedOut)
    return rejection("recording-failure", `${detail}; send it again with the same key`);
  if (!(error instanceof MayBeWritten)) return rejection("storage-failure", detail);
  return { ...rejection("recording-failure", detail), answer: error.answers[0] };
}

/** The words of what was at the bottom of it. */
function causeText(error: Error): string {
  return error.cause instanceof Error ? causeText(error.cause) : error.message;
}

function withoutUndefined<T extends object>(request: T): T {
  return Object.fromEntries(Object.entries(request ?? {}).filter(([, value]) => value !== undefined)) as T;
}
