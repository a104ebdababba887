/** The processes of a schedule: each with its own guard on the shared store, and a network between them. */

import type { Attempt } from "../../core/attempt.ts";
import type { Clock } from "../../core/clock.ts";
import { offerDirect } from "../../core/direct-store.ts";
import { createEngine, type Engine } from "../../core/engine.ts";
import { isNevertwiceError } from "../../core/errors.ts";
import { toIdentity } from "../../core/identity.ts";
import type { Store } from "../../core/store.ts";
import { type FaultRates, type FaultyStore, faultyStore } from "../faulty-store.ts";
import type { Random } from "../random.ts";
import { judgeAnswer, judgeThrow } from "./answer-judge.ts";
import { drawDirectAnswers, type UnseenSteps } from "./direct-answers.ts";
import type { JudgedClaims } from "./judged-claims.ts";
import type { Referee } from "./referee.ts";
import { refereedStore } from "./refereed-store.ts";
import type { PlannedCall, Scenario } from "./scenario.ts";
import { sharedClaims } from "./shared-claims.ts";
import type { Tenure } from "./tenures.ts";
import { createProcess, type Process, type World } from "./world.ts";

export const NAMESPACE = "simulation";
export const OPERATION = "work";

/** One application process: its guard, and its connection to the store. */
export interface Actor {
  readonly name: string;
  readonly process: Process;
  readonly guard: Engine;
  readonly network: FaultyStore;
  isClosed: boolean;
}

export interface ActorOptions {
  readonly name: string;
  readonly world: World;
  readonly random: Random;
  readonly store: Store;
  readonly clock: Clock;
  readonly referee: Referee;
  readonly judgedClaims: JudgedClaims;
  readonly rates: FaultRates;
  readonly delayMs: number;
  readonly directShare: number;
  /** Given if claims that are alike share one: how long it takes to send a group of them. */
  readonly groupMs: (() => number) | undefined;
  readonly unseen: UnseenSteps;
}

export function createActor(options: ActorOptions): Actor {
  const { name, world, random } = options;
  const process = createProcess(world);
  const network = faultyStore(refereedStore(options), {
    seed: random.between(0, 2 ** 31),
    rates: options.rates,
    delayMs: options.delayMs,
    timer: world,
  });
  const { groupMs } = options;
  const connection = groupMs ? sharedClaims({ ...options, groupMs, network, process }) : network;
  const store = delivered(connection, process, options.referee);
  const direct = drawDirectAnswers({ ...options, share: options.directShare });
  if (direct !== undefined) offerDirect(store, direct);
  let tokens = 0;
  const guard = createEngine(
    {
      store,
      namespace: NAMESPACE,
      purgeEveryMs: 0,
      drainMs: 50,
    },
    { timer: process.timer, random: random.next, newToken: () => `${name}.${tokens++}` },
  );
  return { name, process, guard, network, isClosed: false };
}

/** Next to the process: what comes back waits while it is paused, and is lost when it is dead. */
function delivered(store: Store, process: Process, referee: Referee): Store {
  function deliver<T>(method: string, token: string | undefined, answer: Promise<T>): Promise<T> {
    if (token !== undefined) referee.tell(() => `sent: ${method} ${token}`);
    return new Promise((resolve, reject) => {
      answer.then(
        (value) =>
          process.arrive(() => {
            if (token !== undefined) referee.delivered(method, token, value);
            resolve(value);
          }),
        (error) => process.arrive(() => reject(error)),
      );
    });
  }
  const { keepStep, watch, list, undecided, overdue, namespaces, listOrder, forget, usesSignal } = store;
  return {
    ...(usesSignal && { usesSignal }),
    claim: (request) => deliver("claim", request.token, store.claim(request)),
    complete: (request) => deliver("complete", request.token, store.complete(request)),
    abandon: (request) => deliver("abandon", request.token, store.abandon(request)),
    renew: (request) => deliver("renew", undefined, store.renew(request)),
    ...(keepStep && { keepStep: (request) => deliver("keepStep", undefined, keepStep(request)) }),
    read: (id, bound) => deliver("read", undefined, store.read(id, bound)),
    purge: (limit, bound) => deliver("purge", undefined, store.purge(limit, bound)),
    close: () => store.close(),
    ...(watch && {
      watch: ({ id, wake }) => deliver("watch", undefined, watch({ id, wake: () => process.arrive(wake) })),
    }),
    ...(list && { list: (request) => deliver("list", undefined, list(request)) }),
    ...(undecided && { undecided: (request) => deliver("undecided", undefined, undecided(request)) }),
    ...(overdue && { overdue: (request) => deliver("overdue", undefined, overdue(request)) }),
    ...(namespaces && { namespaces: (request) => deliver("namespaces", undefined, namespaces(request)) }),
    ...(listOrder && { listOrder }),
    ...(forget && { forget: (request) => deliver("forget", undefined, forget(request)) }),
  };
}

/** One call, from its request to its answer, judged by the referee. */
export interface CallRecord {
  readonly actor: Actor;
  readonly plan: PlannedCall;
  isAnswered: boolean;
}

interface CallContext {
  readonly referee: Referee;
  readonly scenario: Scenario;
  readonly run: string;
}

const ids = new Map<string, string>();

/** Few subjects and many schedules: each is hashed once. */
export function recordId(scope: string, key: string): string {
  const subject = `${scope}/${key}`;
  const id = ids.get(subject) ?? toIdentity({ namespace: NAMESPACE, scope, operation: OPERATION, key }).id;
  ids.set(subject, id);
  return id;
}

export function startCall(context: CallContext, actor: Actor, plan: PlannedCall): CallRecord {
  const { referee, run } = context;
  const id = recordId(plan.scope, plan.key);
  const subject = `${plan.scope}/${plan.key}`;
  const caller = plan.cancelAfterMs === undefined ? undefined : new AbortController();
  const record: CallRecord = { actor, plan, isAnswered: false };
  let runs = 0;

  async function work(attempt: Attempt): Promise<unknown> {
    runs++;
    if (runs > 1) referee.fail("I2", "one call ran its work twice");
    // Work that proceeded without a claim has no fence to be judged by.
    const tenure = attempt.fence === 0 ? undefined : referee.started(id, attempt.fence);
    if (attempt.fence === 0 && !Number.isFinite(plan.work.lastsMs)) referee.excuse(actor.name, id);
    const isWhole = await takeSteps(attempt, tenure);
    if (isWhole)
      await pauseFor(
        actor,
        plan.work.lastsMs,
        plan.work.ending === "throw-when-lost" ? attempt.signal : undefined,
      );
    const isUnsure = () => attempt.signal.aborted || caller?.signal.aborted === true;
    const end = (how: "returned" | "threw" | "threw-unsure") => {
      referee.tell(() => `work: ${run} ${how}`);
      if (tenure !== undefined) tenure.work = how;
    };
    if (!isWhole) {
      end("threw-unsure");
      throw new Error(run);
    }
    switch (plan.work.ending) {
      case "not-done":
        end("threw");
        throw attempt.notDone(new Error(run));
      case "throw":
        end(isUnsure() ? "threw-unsure" : "threw");
        throw new Error(run);
      case "throw-when-lost":
        if (attempt.signal.aborted) {
          end("threw-unsure");
          throw new Error(run);
        }
    }
    end("returned");
    return { run, subject };
  }

  /** Every call of a key has the same steps, some of them fewer. False if the attempt could not finish them. */
  async function takeSteps(attempt: Attempt, tenure: Tenure | undefined): Promise<boolean> {
    const count = actor.network.keepStep === undefined ? 0 : plan.work.steps;
    try {
      for (let step = 0; step < count; step++) {
        const name = `step ${step}`;
        const { of } = await attempt.step(name, async () => {
          referee.stepStarted(tenure, name, step === 0 ? undefined : `step ${step - 1}`);
          await pauseFor(actor, plan.work.stepMs, undefined);
          return { of: `${subject} ${name}` };
        });
        if (of !== `${subject} ${name}`) referee.fail("I7", "a step was answered with another one's outcome");
      }
    } catch (error) {
      // A record that expired while its work went on has lost its first steps: they do not fit those of a later attempt.
      if (!isNevertwiceError(error, "lease-lost") && !isNevertwiceError(error, "unknown")) throw error;
      referee.count(`step ${error.code === "unknown" ? "unknown" : "lost"}`);
      return false;
    }
    return true;
  }

  const reconcile =
    plan.policy.onLapsed === "hold" ? { reconcile: reconciler(context, actor, id, subject) } : {};
  const request = {
    operation: OPERATION,
    scope: plan.scope,
    key: plan.key,
    fingerprint: plan.fingerprint,
    signal: caller?.signal,
  };
  referee.tell(() => `call: ${run} by ${actor.name} for ${id.slice(0, 4)}`);
  if (plan.cancelAfterMs)
    actor.process.timer.after(plan.cancelAfterMs, () => caller?.abort(new Error("cancelled")));
  const result = actor.guard.tryRun({ ...request, ...plan.policy, ...reconcile }, work);
  // The caller leaves before anything else happens: a claim that was answered directly is granted, but its work has not begun.
  if (plan.cancelAfterMs === 0) caller?.abort(new Error("cancelled"));
  result.then(
    (answer) => {
      record.isAnswered = true;
      referee.tell(() => `answer: ${run} ${answer.status}`);
      judgeAnswer(referee, { id, subject, run, runs }, answer);
    },
    (error) => {
      record.isAnswered = true;
      referee.tell(() => `answer: ${run} threw ${String(error)}`);
      if (caller?.signal.aborted && error === caller.signal.reason) return;
      judgeThrow(referee, id, run, error);
    },
  );
  return record;

  function pauseFor({ process }: Actor, ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      if (Number.isFinite(ms)) process.timer.after(ms, resolve);
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}

/** A reconciler that decides about a held claim as the scenario says. */
function reconciler({ scenario, run, referee }: CallContext, actor: Actor, id: string, subject: string) {
  return async (lapsed: { readonly fence: number }) => {
    const tenure = referee.started(id, lapsed.fence);
    await new Promise<void>((resolve) => void actor.process.timer.after(10, resolve));
    if (tenure !== undefined) tenure.work = scenario.reconcileAs === "unknown" ? "unstarted" : "returned";
    switch (scenario.reconcileAs) {
      case "done":
        return { status: "done", value: { run: `decided ${run}`, subject } } as const;
      case "failed":
        return { status: "failed", error: new Error(`decided ${run}`) } as const;
      default:
        return { status: scenario.reconcileAs } as const;
    }
  };
}
