/**
 * One exchange: admit the request, claim its key, run the handler, keep its response, then let the response go. Every
 * adapter calls `handle`, and no adapter decides anything about idempotency itself.
 */
import type { Attempt } from "../core/attempt.ts";
import { doorRules } from "../core/door-rules.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError } from "../core/errors.ts";
import type { FailureDisposition } from "../core/policy.ts";
import type { TakeSeat } from "../core/request.ts";
import { type RunResult, toError } from "../core/result.ts";
import { createAddedLines } from "./added-headers.ts";
import { type AdmittedRequest, admit, keyContext, RefusalWithStatus } from "./admission.ts";
import { decodeForClient, variesByCoding } from "./content-coding.ts";
import { createCurrentReply } from "./current-replay.ts";
import { endOfTurn } from "./event-loop-turn.ts";
import { type HttpAttempt, type KeepDecision, RunningHttpAttempt } from "./http-attempt.ts";
import type { HeaderLine, HttpReply, HttpRequest, HttpResponse } from "./http-message.ts";
import { createIgnoredKeyWarning } from "./ignored-key.ts";
import { chosenByStatus, decide } from "./keep-decision.ts";
import { encodedLimit, judgeKept, toFaultError, toUnkeptRefusal } from "./kept-judgement.ts";
import { createKeepFor } from "./kept-time.ts";
import type { HttpOptions } from "./options.ts";
import { type Problem, problemReply, retryLine } from "./problem.ts";
import { listKeyHeaders } from "./profile.ts";
import { type Charge, findOrCreateQuota } from "./quota.ts";
import { redacted } from "./redaction.ts";
import {
  type KeptResponse,
  NOT_KEPT_LINE,
  replayReply,
  toKeptResponse,
  withLines,
  withoutBody,
} from "./replay.ts";
import { resolveHttpOptions } from "./resolved-options.ts";
import { isThenable } from "./thenable.ts";
import { takeSeat } from "./waiting-room.ts";

/** What the adapter has to do now. */
export type ExchangeResult =
  /** Run the handler as if the layer were absent, and add these header lines to its response. */
  | { readonly kind: "pass"; readonly added: readonly HeaderLine[] }
  /** Send the handler's response, which was held back until now, with these header lines added. */
  | { readonly kind: "held"; readonly added: readonly HeaderLine[] }
  /** Send this reply, and nothing of what the handler may have responded. */
  | HttpReply;

/**
 * Starts the handler and holds its response back. Resolves with the response when it is whole, or when it
 * turns out to be streamed or longer than `maxHeldBytes`. Adds the lines in `added` to its headers. Rejects with what the
 * handler threw.
 */
export type RunHandler = (attempt: HttpAttempt, added: readonly HeaderLine[]) => Promise<HttpResponse>;

/** Which responses an adapter holds back. */
export interface HoldingRules {
  /** A longer body is sent as a stream. */
  readonly maxHeldBytes: number;
  /** Whether a body with this head is held back until it is whole. Otherwise it counts as streamed. */
  holds(status: number, header: (name: string) => string | undefined): boolean;
}

export interface Exchange<Native> extends HoldingRules {
  handle(request: HttpRequest<Native>, run: RunHandler): Promise<ExchangeResult>;
}

const HELD: ExchangeResult = { kind: "held", added: [] };
/** The client may want to store a response that its retry would not get. */
const HELD_UNKEPT: ExchangeResult = { kind: "held", added: [NOT_KEPT_LINE] };

/** A request that may claim its key. */
interface AdmittedCall<Native> {
  readonly request: HttpRequest<Native>;
  readonly admitted: AdmittedRequest;
  readonly charge: Charge | undefined;
}

export function createExchange<Native>(guard: Engine, given: HttpOptions<Native>): Exchange<Native> {
  const options = resolveHttpOptions(guard, given);
  const { profile, keep, clock, redact, retentionMs, replayedHeader } = options;
  const { onFailure } = options.guard.policy;
  const engine = options.guard.with({
    onFailure: (error) =>
      error instanceof UnkeptResult
        ? error.as
        : typeof onFailure === "function"
          ? onFailure(error)
          : onFailure,
  });
  const methods = new Set(options.methods);
  const replayed = new Set(options.replayHeaders.map((name) => name.toLowerCase()));
  const problems = { ...options, style: profile.problems };
  const keepFor = createKeepFor(options);
  const added = createAddedLines(options);
  const warnOfIgnoredKey = createIgnoredKeyWarning(listKeyHeaders(profile, options.header), options.methods);
  const quota = findOrCreateQuota(guard, given, options);
  const maxHeldBytes = engine.policy.maxOutcomeBytes;
  const currentReply =
    options.replay === "snapshot" ? undefined : createCurrentReply(options.replay, replayedHeader);
  const judge = (value: unknown) => judgeKept(value, clock.now());
  const rules = doorRules({ judgeReplay: judge, mostOutcomeBytes: encodedLimit(maxHeldBytes) });

  async function handle(request: HttpRequest<Native>, run: RunHandler): Promise<ExchangeResult> {
    if (!methods.has(request.method)) return passUnprotected(request);
    let admitted: AdmittedRequest | undefined;
    let charge: Charge | undefined;
    try {
      admitted = await admit(request, options);
      if (admitted === undefined) return pass(request);
      const { operation, scope, key } = admitted;
      const isKnown = async () => (await engine.read({ operation, scope, key })) !== undefined;
      charge = await quota?.admit(scope, isKnown);
    } catch (error) {
      return refuse(error, request);
    }
    await endOfTurn();
    // Awaited, which is cheaper than to resolve this promise with another one.
    return await carryOut({ request, admitted, charge }, run);
  }

  async function carryOut(
    { request, admitted, charge }: AdmittedCall<Native>,
    run: RunHandler,
  ): Promise<ExchangeResult> {
    let isStarted = false;
    let isNewKey = false;
    let hasBody = true;
    const work = async (attempt: Attempt): Promise<KeptResponse> => {
      isStarted = true;
      isNewKey = attempt.number <= 1;
      const kept = await runOnce(request, new RunningHttpAttempt(attempt, admitted, keepFor), run);
      charge?.keep(kept);
      hasBody = kept[2] !== null;
      return kept;
    };
    const shorten = (kept: KeptResponse): KeptResponse => {
      hasBody = false;
      return withoutBody(kept);
    };
    try {
      const { operation, scope, key, fingerprint } = admitted;
      const { waitUntil } = request;
      const bytes = admitted.bodyBytes;
      const takeOwnSeat: TakeSeat = (id, waitMs) => takeSeat(options.maxWaiting, { id, bytes, waitMs });
      const call = { operation, scope, key, fingerprint, shorten, takeSeat: takeOwnSeat, ...rules };
      const result = await engine.tryRun(waitUntil === undefined ? call : { ...call, waitUntil }, work);
      if (result.status === "ran") return hasBody ? HELD : HELD_UNKEPT;
      const answer = toExchangeResult(result, request);
      return isThenable(answer) ? await answer : answer;
    } catch (error) {
      if (error instanceof UnkeptResult) {
        if (error.isThrown) throw error.content;
        return HELD;
      }
      // After the start, every error is the application's own, whatever its type is.
      if (isStarted) throw error;
      return refuse(error, request);
    } finally {
      // The record of a new key stays in the store even if its work failed and the key is free again.
      if (!isNewKey) charge?.giveBack();
    }
  }

  /** Throws an `UnkeptResult` for a response that must not be kept. */
  async function runOnce(
    request: HttpRequest<Native>,
    attempt: RunningHttpAttempt,
    run: RunHandler,
  ): Promise<KeptResponse> {
    let response: HttpResponse;
    try {
      response = await run(attempt, added.forAnswer("first", request));
    } catch (thrown) {
      // The handler may have failed because its client disconnected. Then it is unknown how far it came.
      if (request.isGone?.() && !attempt.hasSaidNotDone(thrown)) throw interrupted(thrown);
      throw thrown;
    }
    const decision: KeepDecision =
      attempt.decision ?? decide(response, keep, request.native, () => failureDisposition(request));
    if (decision === "release" || decision === "unknown") throw new UnkeptResult(response, decision, false);
    const { keptMs = retentionMs } = attempt;
    const stored = decision === "marker" ? response : redacted(response, redact, request.native);
    return toKeptResponse(stored, {
      chosen: replayed,
      isMarker: decision === "marker" || (stored.body?.length ?? 0) > maxHeldBytes,
      answersUntil: options.expired === "refuse" ? clock.now() + keptMs : undefined,
      accepted: () => request.header("accept-encoding"),
    });
  }

  /** What a status of 500 or higher means if neither the handler nor `keep` decides. */
  function failureDisposition(request: HttpRequest<Native>): FailureDisposition {
    const disposition = typeof onFailure === "function" ? "release" : onFailure;
    return disposition === "release" && request.isGone?.() ? "unknown" : disposition;
  }

  function toExchangeResult(
    result: Exclude<RunResult<KeptResponse>, { readonly status: "ran" }>,
    request: HttpRequest<Native>,
  ): ExchangeResult | Promise<ExchangeResult> {
    if (result.status !== "replayed") {
      const error = toError(result);
      // The retry asks `reconcile` once more.
      const isAskedAgain = result.status === "unknown" && options.guard.policy.reconcile !== undefined;
      return refuse(isAskedAgain ? Object.assign(error, { retryable: true }) : error, request);
    }
    const kept = result.value;
    const fault = judge(kept);
    if (fault !== undefined && fault !== "not-kept") return refuse(toFaultError(fault), request);
    if (currentReply === undefined) return replayStored(kept, request);
    return currentReply(request.native, kept).then(
      (now) => (now === undefined ? replayStored(kept, request) : toReplay(now, kept, request)),
      (error) => refuse(error, request),
    );
  }

  function replayStored(kept: KeptResponse, request: HttpRequest<Native>): HttpReply | Promise<HttpReply> {
    if (kept[2] === null && options.onNotKept === "refuse") return refuse(toUnkeptRefusal(kept), request);
    const reply = replayReply(kept, replayedHeader);
    if (!variesByCoding(reply)) return toReplay(reply, kept, request);
    return decodeForClient(reply, request.header("accept-encoding")).then((plain) =>
      toReplay(plain, kept, request),
    );
  }

  function toReplay(reply: HttpReply, [, , body]: KeptResponse, request: HttpRequest<Native>): HttpReply {
    const isExtended = profile.replayed !== undefined && body !== null;
    const lines = added.forAnswer("replay", request);
    // A retry gets the same failure again, and an SDK that decides by the status would send one.
    const told = looksTransient(reply.status) ? [...lines, retryLine(profile.problems, false)] : lines;
    return withLines(isExtended ? profile.replayed(reply) : reply, told);
  }

  /** Turns an error of ours into a problem reply, and throws every other error. */
  function refuse(error: unknown, request: HttpRequest<Native>): HttpReply {
    const { cause, status } =
      error instanceof RefusalWithStatus
        ? { cause: error.error, status: error.status }
        : { cause: error, status: undefined };
    // Some frameworks take a thrown `undefined` for success, and would never respond.
    if (!isNevertwiceError(cause)) throw error ?? new Error("rejected without a reason");
    const { refusal } = options;
    const own = refusal && ((problem: Problem) => refusal(problem, request.native));
    return withLines(problemReply(cause, { ...problems, own }, status), added.forAnswer(cause.code, request));
  }

  /** For a method that `methods` does not name. */
  function passUnprotected(request: HttpRequest<Native>): ExchangeResult {
    const refusal = profile.key?.onOtherMethod?.(request, keyContext(options));
    if (refusal !== undefined) return refuse(new RefusalWithStatus(refusal.refused, refusal.status), request);
    warnOfIgnoredKey(request);
    return pass(request);
  }

  function pass(request: HttpRequest<Native>): ExchangeResult {
    return { kind: "pass", added: added.forPassed(request) };
  }

  return {
    handle,
    maxHeldBytes,
    holds(status, header) {
      if (chosenByStatus(status, keep) === "marker") return false;
      return !header("content-type")?.toLowerCase().startsWith("text/event-stream");
    },
  };
}

/** Ends an attempt without a kept response: `content` is the response, or what the handler threw. */
class UnkeptResult {
  readonly content: unknown;
  readonly as: "release" | "unknown";
  readonly isThrown: boolean;

  constructor(content: unknown, as: "release" | "unknown", isThrown: boolean) {
    this.content = content;
    this.as = as;
    this.isThrown = isThrown;
  }
}

const interrupted = (thrown: unknown) => new UnkeptResult(thrown, "unknown", true);

/** The statuses after which clients send the same request again, unless they are told not to. */
function looksTransient(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}
