/**
 * The actions that change something. Each request is checked, gets its key's identity and digest, and joins a group that one
 * transaction carries out, or the transaction that the caller has open.
 */

import type { Timer } from "../core/clock.ts";
import type { SqliteConnection } from "../core/database-handle.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { type Check, checkOptions } from "../core/option-checks.ts";
import type { Requirement } from "../core/requirement.ts";
import { callWithin, TimedOut } from "../core/store-call.ts";
import {
  type ActionName,
  type ActionRequest,
  createActionRequest,
  findKeyProblem,
} from "./action-request.ts";
import { type Answer, type Done, type Placed, type Rejected, rejection } from "./answer.ts";
import { type Authorize, authorized } from "./authorization.ts";
import { findWrongAnswer } from "./availability.ts";
import { isName, NAME } from "./commitment.ts";
import {
  actInside,
  actOnConnection,
  checkedTransaction,
  type InsideAnswer,
  type InsideOptions,
  synchronousActions,
} from "./inside.ts";
import { createSender } from "./sender.ts";
import { type ConnectionActions, MayBeWritten, type ReservationStore, type Rules } from "./store.ts";

/** The key of an action: an opaque string of up to 256 bytes, compared byte by byte. */
export interface Keyed {
  /** The key of the action: the same key gets the same answer again. */
  readonly key: string;
  /** The owner of the key, such as a tenant or a merchant. Without it, the key belongs to the whole namespace. */
  readonly scope?: string | undefined;
  /**
   * Who asks, as your application has authenticated it: a string that is not blank, of up to 1,024 bytes. The journal keeps it
   * forever, so pass an id rather than a name. It is not part of the request: a retry may have another actor.
   */
  readonly actor?: string | undefined;
}

/** The units that are to be held, for whom and for how long. */
export interface HoldRequest extends Keyed {
  /** The name of the resource. One that was never declared has a capacity of 1. */
  readonly resource: string;
  /** Who the units are held for. */
  readonly requester: string;
  /** How long the hold lasts unless it is confirmed, in milliseconds. At most `maxDurationMs`. */
  readonly durationMs: number;
  /** How many units of the resource to hold; default 1. */
  readonly units?: number | undefined;
}

/** The commitment that the action is about. */
export interface CommitmentRequest extends Keyed {
  /** The id of the commitment, as `placeHold` answered it. */
  readonly id: string;
}

/** The commitment that the action is about, and how many of its units. */
export interface UnitsRequest extends CommitmentRequest {
  /** How many of its units; default: all of them. */
  readonly units?: number | undefined;
}

/** The resource that the action is about. */
export interface ResourceRequest extends Keyed {
  /** The name of the resource. */
  readonly resource: string;
}

/** A resource and its capacity. */
export interface CapacityRequest extends ResourceRequest {
  /** How many units can be held or confirmed at the same time. */
  readonly capacity: number;
}

/** An action, in a transaction of the store or in one that the caller has open. */
export interface KeyedAction<Request, Answered> {
  (request: Request): Promise<Answered>;
  /**
   * In your own transaction. The answer holds if you commit. It is always a decision: what the database refuses is thrown,
   * and your transaction is then as it was before the call. On the connection of a SQLite store the answer is no promise.
   */
  <Tx>(request: Request, options: InsideOptions<Tx>): InsideAnswer<Tx, Answered>;
}

/** The actions. Each is one transaction, and each answers a repetition of its key with its first answer. */
export interface Actions {
  /** Holds units of a resource for a time. Answers with the id of the commitment, or says why not. */
  readonly placeHold: KeyedAction<HoldRequest, Placed | Rejected>;
  /** Rejected with `window-elapsed` from `expiresAt` on, that instant included. */
  readonly confirm: KeyedAction<UnitsRequest, Done | Rejected>;
  /** Ends a hold before its time: its units are free. */
  readonly release: KeyedAction<CommitmentRequest, Done | Rejected>;
  /** Records that the time of a hold is over. Rejected with `window-not-elapsed` before that. */
  readonly expire: KeyedAction<CommitmentRequest, Done | Rejected>;
  /** Gives back units that were confirmed: a bed that is free again, goods that were returned. */
  readonly giveBack: KeyedAction<UnitsRequest, Done | Rejected>;
  /** What operators do with resources. */
  readonly resources: {
    /** Creates a resource with its capacity. */
    readonly declare: KeyedAction<CapacityRequest, Done | Rejected>;
    /** Changes the capacity. Rejected with `units-exceeded` if more units are taken. */
    readonly adjust: KeyedAction<CapacityRequest, Done | Rejected>;
    /** Takes no new holds until `resume`. */
    readonly suspend: KeyedAction<ResourceRequest, Done | Rejected>;
    /** Takes holds again after `suspend`. */
    readonly resume: KeyedAction<ResourceRequest, Done | Rejected>;
    /** Takes no holds any more. A closed resource stays closed. */
    readonly close: KeyedAction<ResourceRequest, Done | Rejected>;
  };
}

export interface ActionsOptions {
  readonly store: ReservationStore;
  readonly rules: Rules;
  /** How long the caller waits for an action. */
  readonly actionMs: number;
  readonly timer: Timer;
  readonly authorize?: Authorize | undefined;
  readonly requirement?: Requirement | undefined;
}

/** `erase` is asked for by requester, and sent by us. */
type CallerAction = Exclude<ActionName, "erase">;

const anything: Check = () => {};
const KEYED = { key: anything, scope: anything, actor: anything };
const CHECKS: Readonly<Record<CallerAction, Readonly<Record<string, Check>>>> = {
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
  const { store, rules, actionMs, timer, authorize, requirement } = options;
  const { namespace } = rules;
  const carryOut = createSender(store, rules, timer);

  /** The request, or the rejection of a key that nothing can be stored under. */
  function prepare(action: CallerAction, given: Keyed): ActionRequest | Rejected {
    checkOptions(given, CHECKS[action]);
    const { key, scope, actor, ...parameters } = given;
    const problem = findKeyProblem(key, scope) ?? findActorProblem(actor);
    if (problem !== undefined) return rejection("invalid-request", problem);
    return createActionRequest(action, { key, scope, namespace }, parameters, actor);
  }

  async function allowed(request: ActionRequest): Promise<ActionRequest | Rejected> {
    if (requirement?.isMet === false) await requirement.meet();
    return authorize === undefined ? request : authorized(store, rules, authorize, request);
  }

  async function act(action: CallerAction, given: Keyed): Promise<Answer> {
    const prepared = prepare(action, given);
    if ("ok" in prepared) return prepared;
    try {
      return await callWithin({ store: {}, timer }, actionMs, async () => {
        const request = await allowed(prepared);
        return "ok" in request ? request : carryOut(request);
      });
    } catch (error) {
      // What authorize answered is no verdict.
      if (isNevertwiceError(error, "options-invalid")) throw error;
      const wrongAnswer = findWrongAnswer(error);
      if (wrongAnswer !== undefined) throw wrongAnswer;
      return toRejection(error);
    }
  }

  async function actIn(tx: unknown, action: CallerAction, given: Keyed): Promise<Answer> {
    const prepared = prepare(action, given);
    const request = "ok" in prepared ? prepared : await allowed(prepared);
    return "ok" in request ? request : actInside(store, tx, request, rules);
  }

  function actNow(inside: ConnectionActions, tx: unknown, action: CallerAction, given: Keyed): Answer {
    if (authorize !== undefined)
      throw new NevertwiceError(
        "options-invalid",
        "authorize may take its time, and an action on the connection of a SQLite store may not: leave tx out.",
      );
    if (requirement?.isMet === false)
      throw new NevertwiceError(
        "store-unsafe",
        "require was not checked yet, and an action on the connection of a SQLite store cannot wait for it: call `await reservations.ready()` first.",
      );
    const request = prepare(action, given);
    return "ok" in request ? request : actOnConnection(inside, tx as SqliteConnection, request, rules);
  }

  function actionFor<Request extends Keyed, Answered>(
    action: CallerAction,
    complete: (request: Request) => Request = (request) => request,
  ): KeyedAction<Request, Answered> {
    const perform = (request: Request, inside?: InsideOptions): Answer | Promise<Answer> => {
      const given = complete(request);
      if (inside === undefined) return act(action, given);
      const tx = checkedTransaction(inside);
      const here = synchronousActions(store, tx);
      return here === undefined ? actIn(tx, action, given) : actNow(here, tx, action, given);
    };
    return perform as KeyedAction<Request, Answered>;
  }

  return {
    placeHold: actionFor("placeHold", (request) => ({ units: 1, ...withoutUndefined(request) })),
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

function findActorProblem(actor: unknown): string | undefined {
  return actor === undefined || isName(actor) ? undefined : `actor must be ${NAME}`;
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
