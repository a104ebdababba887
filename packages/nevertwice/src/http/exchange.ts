/**
 * One exchange: admit the request, claim its key, run the handler, keep its response, then let the response go. Every
 * adapter calls `handle`, and no adapter decides anything about idempotency itself.
 */
import type { Attempt } from "../core/attempt.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { FailureDisposition } from "../core/policy.ts";
import { type RunResult, toError } from "../core/result.ts";
import { createAddedLines } from "./added-headers.ts";
import { type AdmittedRequest, admit, keyContext, RefusalWithStatus } from "./admission.ts";
import { decodeForClient, variesByCoding } from "./content-coding.ts";
import { endOfTurn } from "./event-loop-turn.ts";
import { type HttpAttempt, RunningHttpAttempt } from "./http-attempt.ts";
import type { HeaderLine, HttpReply, HttpRequest, HttpResponse } from "./http-message.ts";
import { createIgnoredKeyWarning } from "./ignored-key.ts";
import { chosenByStatus, decide } from "./keep-decision.ts";
import type { HttpOptions } from "./options.ts";
import { problemReply } from "./problem.ts";
import { listKeyHeaders } from "./profile.ts";
import { type Charge, findOrCreateQuota } from "./quota.ts";
import {
  currentReply,
  type KeptResponse,
  readKept,
  replayReply,
  toKeptResponse,
  withoutBody,
} from "./replay.ts";
import { resolveHttpOptions } from "./resolved-options.ts";
import { isThenable } from "./thenable.ts";

/** What the adapter has to do now. */
export type ExchangeResult =
  /** Run the handler as if the layer were absent, and add these header lines to its response. */
  | { readonly kind: "pass"; readonly added: readonly HeaderLine[] }
  /** Send the handler's response, which was held back until now. */
  | { readonly kind: "held" }
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

const HELD: ExchangeResult = { kind: "held" };

/** With `expired: "refuse"`, a response is still replayed this long after its time: the clocks of two machines differ. */
const CLOCK_SKEW_MS = 60_000;

/** A request that may claim its key. */
interface AdmittedCall<Native> {
  readonly request: HttpRequest<Native>;
  readonly admitted: AdmittedRequest;
  readonly charge: Charge | undefined;
}

export function createExchange<Native>(guard: Engine, given: HttpOptions<Native>): Exchange<Native> {
  const options = resolveHttpOptions(guard, given);
  const { profile, keep, clock, retentionMs, replayedHeader } = options;
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
  const added = createAddedLines(options);
  const warnOfIgnoredKey = createIgnoredKeyWarning(listKeyHeaders(profile, options.header), options.methods);
  const quota = findOrCreateQuota(guard, given, options);

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
    const work = async (attempt: Attempt): Promise<KeptResponse> => {
      isStarted = true;
      isNewKey = attempt.number <= 1;
      const kept = await runOnce(request, new RunningHttpAttempt(attempt, admitted), run);
      charge?.keep(kept);
      return kept;
    };
    try {
      const { operation, scope, key, fingerprint } = admitted;
      const result = await engine.tryRun({ operation, scope, key, fingerprint, shorten: withoutBody }, work);
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
    const decision =
      attempt.decision ?? decide(response, keep, request.native, () => failureDisposition(request));
    if (decision === "release" || decision === "unknown") throw new UnkeptResult(response, decision, false);
    return toKeptResponse(response, {
      chosen: replayed,
      isMarker: decision === "marker",
      answersUntil: options.expired === "refuse" ? clock.now() + retentionMs : undefined,
      accepted: () => request.header("accept-encoding"),
    });
  }

  /** What a status of 500 or higher means if neither the handler nor `keep` decides. */
  function failureDisposition(request: HttpRequest<Native>): FailureDisposition {
    const disposition = typeof onFailure === "function" ? "release" : onFailure;
    return disposition === "release" && request.isGone?.() ? "unknown" : disposition;
  }

  function toExchangeResult(
    result: RunResult<KeptResponse>,
    request: HttpRequest<Native>,
  ): ExchangeResult | Promise<ExchangeResult> {
    if (result.status === "ran") return HELD;
    if (result.status !== "replayed") return refuse(toError(result), request);
    const kept = readKept(result.value);
    if (kept === undefined) {
      return refuse(
        new NevertwiceError("not-kept", "the request was carried out before, and is not repeated."),
        request,
      );
    }
    const [, , , answersUntil] = kept;
    if (answersUntil !== undefined && clock.now() >= answersUntil + CLOCK_SKEW_MS) {
      return refuse(
        new NevertwiceError("expired", "this key was used before, and its response is no longer kept."),
        request,
      );
    }
    const reply = buildReplay(kept, request);
    return isThenable(reply)
      ? reply.then((ready) => toReplay(ready, kept, request))
      : toReplay(reply, kept, request);
  }

  function buildReplay(kept: KeptResponse, request: HttpRequest<Native>): HttpReply | Promise<HttpReply> {
    if (options.replay !== "snapshot")
      return currentReply(options.replay, request.native, kept, replayedHeader);
    const reply = replayReply(kept, replayedHeader);
    return variesByCoding(reply) ? decodeForClient(reply, request.header("accept-encoding")) : reply;
  }

  function toReplay(reply: HttpReply, [, , body]: KeptResponse, request: HttpRequest<Native>): HttpReply {
    const isExtended = profile.replayed !== undefined && body !== null;
    return withLines(isExtended ? profile.replayed(reply) : reply, added.forAnswer("replay", request));
  }

  /** Turns an error of ours into a problem reply, and throws every other error. */
  function refuse(error: unknown, request: HttpRequest<Native>): HttpReply {
    const { cause, status } =
      error instanceof RefusalWithStatus
        ? { cause: error.error, status: error.status }
        : { cause: error, status: undefined };
    // Some frameworks take a thrown `undefined` for success, and would never respond.
    if (!isNevertwiceError(cause)) throw error ?? new Error("rejected without a reason");
    return withLines(problemReply(cause, problems, status), added.forAnswer(cause.code, request));
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
    maxHeldBytes: engine.policy.maxOutcomeBytes,
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

function interrupted(thrown: unknown): UnkeptResult {
  return new UnkeptResult(thrown, "unknown", true);
}

function withLines(reply: HttpReply, lines: readonly HeaderLine[]): HttpReply {
  return lines.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...lines] };
}
