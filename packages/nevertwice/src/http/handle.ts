/**
 * One exchange: admit the request, claim its key, run the handler, keep what it answered, then let the answer go. Every
 * adapter walks through here, and none of them decides anything about idempotency.
 */
import type { Attempt } from "../core/attempt.ts";
import type { Engine } from "../core/engine.ts";
import { type ErrorCode, isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import type { FailureDisposition } from "../core/policy.ts";
import { type RunResult, toError } from "../core/result.ts";
import { type Admitted, admit, keyContext, Refused } from "./admission.ts";
import { chosenByStatus, decide } from "./decision.ts";
import type {
  Answer,
  Exchange,
  HeaderLine,
  HttpAttempt,
  HttpRequest,
  HttpResponse,
  KeepDecision,
  Reply,
  Run,
} from "./exchange.ts";
import type { HttpOptions } from "./options.ts";
import { problemReply } from "./problem.ts";
import { carriersOf } from "./profile.ts";
import { type Charge, quotaOf } from "./quota.ts";
import { currentReply, type KeptResponse, keptOf, readKept, replayReply, withoutBody } from "./replay.ts";
import { settingsOf } from "./settings.ts";
import { endOfTurn } from "./turn.ts";

const HELD: Answer = { kind: "held" };
const NOTHING: readonly HeaderLine[] = [];

/** How far past its time an answer is still replayed where it is refused afterwards: clocks of two machines differ. */
const CLOCK_SKEW_MS = 60_000;

/** A request that may claim its key. */
interface Admission<Native> {
  readonly request: HttpRequest<Native>;
  readonly admitted: Admitted;
  readonly charge: Charge | undefined;
}

export function createExchange<Native>(guard: Engine, options: HttpOptions<Native>): Exchange<Native> {
  const settings = settingsOf(guard, options);
  const { profile, keep, clock, retentionMs, replayedHeader } = settings;
  const failed = settings.guard.policy.onFailure;
  const engine = settings.guard.with({
    onFailure: (error) =>
      error instanceof Ended ? error.as : typeof failed === "function" ? failed(error) : failed,
  });
  const methods = new Set(settings.methods);
  const replayed = new Set(settings.replayHeaders.map((name) => name.toLowerCase()));
  const problems = { ...settings, style: profile.problems };
  const exposed: HeaderLine = [
    "access-control-expose-headers",
    [replayedHeader, "Retry-After", ...Object.keys(profile.added?.describe(settings.header) ?? {})].join(
      ", ",
    ),
  ];
  const allowed: HeaderLine = [
    "access-control-allow-headers",
    carriersOf(profile, settings.header).join(", "),
  ];
  const keyHeader = settings.header.toLowerCase();
  const quota = quotaOf(guard, options, settings);

  async function handle(request: HttpRequest<Native>, run: Run): Promise<Answer> {
    if (!methods.has(request.method)) return elsewhere(request);
    let admitted: Admitted | undefined;
    let charge: Charge | undefined;
    try {
      admitted = await admit(request, settings);
      if (admitted === undefined) return passed(request);
      const { operation, scope, key } = admitted;
      const isKnown = async () => (await engine.read({ operation, scope, key })) !== undefined;
      charge = await quota?.admit(scope, isKnown);
    } catch (error) {
      return refused(error, request);
    }
    await endOfTurn();
    return carryOut({ request, admitted, charge }, run);
  }

  async function carryOut({ request, admitted, charge }: Admission<Native>, run: Run): Promise<Answer> {
    let isStarted = false;
    let isNewKey = false;
    const work = async (attempt: Attempt): Promise<KeptResponse> => {
      isStarted = true;
      isNewKey = attempt.number <= 1;
      const kept = await runOnce(request, new HandedAttempt(attempt, admitted), run);
      charge?.keep(kept);
      return kept;
    };
    try {
      const { operation, scope, key, fingerprint } = admitted;
      const result = await engine.tryRun({ operation, scope, key, fingerprint, shorten: withoutBody }, work);
      return await answerTo(result, request);
    } catch (error) {
      if (error instanceof Ended) {
        if (error.isThrown) throw error.content;
        return HELD;
      }
      // What the handler threw is the application's own, whatever it is.
      if (isStarted) throw error;
      return refused(error, request);
    } finally {
      // The record of a new key stays in the store even if its work failed and the key is free again.
      if (!isNewKey) charge?.giveBack();
    }
  }

  async function runOnce(
    request: HttpRequest<Native>,
    attempt: HandedAttempt,
    run: Run,
  ): Promise<KeptResponse> {
    let response: HttpResponse;
    try {
      response = await run(attempt, added("first", request));
    } catch (thrown) {
      // A client that went away may be why it failed: then nobody knows how far it came.
      if (request.isGone?.() && !attempt.hasSaidNotDone(thrown)) throw cutOff(thrown);
      throw thrown;
    }
    const decision = attempt.decision ?? decide(response, keep, request.native, () => ifFailed(request));
    if (decision === "release" || decision === "unknown") throw new Ended(response, decision, false);
    const until = settings.expired === "refuse" ? clock.now() + retentionMs : undefined;
    return keptOf(response, replayed, decision === "marker", until);
  }

  /** What an answer from 500 means where nobody says more about it. */
  function ifFailed(request: HttpRequest<Native>): FailureDisposition {
    const disposition = typeof failed === "function" ? "release" : failed;
    return disposition === "release" && request.isGone?.() ? "unknown" : disposition;
  }

  async function answerTo(result: RunResult<KeptResponse>, request: HttpRequest<Native>): Promise<Answer> {
    if (result.status === "ran") return HELD;
    if (result.status !== "replayed") return refused(toError(result), request);
    const kept = readKept(result.value);
    if (kept === undefined) {
      return refused(
        new NevertwiceError("not-kept", "the request was carried out before, and is not repeated."),
        request,
      );
    }
    const [, , body, answersUntil] = kept;
    if (answersUntil !== undefined && clock.now() >= answersUntil + CLOCK_SKEW_MS) {
      return refused(
        new NevertwiceError("expired", "this key was used before, and what it answered is no longer kept."),
        request,
      );
    }
    const reply =
      settings.replay === "snapshot"
        ? replayReply(kept, replayedHeader)
        : await currentReply(settings.replay, request.native, kept, replayedHeader);
    const isExtended = profile.replayed !== undefined && body !== null;
    return withAdded(isExtended ? profile.replayed(reply) : reply, added("replay", request));
  }

  /** Errors of ours become problems; those of the application stay what they are. */
  function refused(error: unknown, request: HttpRequest<Native>): Reply {
    const { cause, status } =
      error instanceof Refused
        ? { cause: error.error, status: error.status }
        : { cause: error, status: undefined };
    if (!isNevertwiceError(cause)) throw error;
    return withAdded(problemReply(cause, problems, status), added(cause.code, request));
  }

  function added(
    answer: "first" | "replay" | ErrorCode,
    request: HttpRequest<Native>,
  ): readonly HeaderLine[] {
    const lines = profile.added?.lines(answer, settings.header, request.header(keyHeader)) ?? NOTHING;
    return settings.cors && request.header("origin") !== undefined ? [...lines, exposed] : lines;
  }

  /** A method on which keys do not count. */
  function elsewhere(request: HttpRequest<Native>): Answer {
    const refusal = profile.key?.elsewhere?.(request, keyContext(settings));
    if (refusal === undefined) return passed(request);
    return refused(new Refused(refusal.refused, refusal.status), request);
  }

  function passed(request: HttpRequest<Native>): Answer {
    const isPreflight =
      settings.cors &&
      settings.keyField === undefined &&
      request.method === "OPTIONS" &&
      request.header("access-control-request-method") !== undefined;
    return { kind: "pass", added: isPreflight ? [allowed] : NOTHING };
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

/** How an attempt ended whose key is not to be answered for: with an answer, or with what the handler threw. */
class Ended {
  readonly content: unknown;
  readonly as: "release" | "unknown";
  readonly isThrown: boolean;

  constructor(content: unknown, as: "release" | "unknown", isThrown: boolean) {
    this.content = content;
    this.as = as;
    this.isThrown = isThrown;
  }
}

function cutOff(thrown: unknown): Ended {
  return new Ended(thrown, "unknown", true);
}

class HandedAttempt implements HttpAttempt {
  readonly operation: string;
  readonly key: string;
  decision: KeepDecision | undefined;
  readonly #attempt: Attempt;
  #notDone: unknown;

  constructor(attempt: Attempt, { operation, key }: Admitted) {
    this.#attempt = attempt;
    this.operation = operation;
    this.key = key;
  }

  get fence(): number {
    return this.#attempt.fence;
  }

  get number(): number {
    return this.#attempt.number;
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  deriveKey(name: string): string {
    return this.#attempt.deriveKey(name);
  }

  renew(): Promise<boolean> {
    return this.#attempt.renew();
  }

  notDone(cause?: unknown): Error {
    const error = this.#attempt.notDone(cause);
    this.#notDone = error;
    // Where a framework makes an answer of what is thrown, that answer is about nothing.
    this.decision ??= "release";
    return error;
  }

  hasSaidNotDone(thrown: unknown): boolean {
    return thrown !== undefined && thrown === this.#notDone;
  }

  keep(decision: KeepDecision): void {
    this.decision = decision;
  }
}

function withAdded(reply: Reply, lines: readonly HeaderLine[]): Reply {
  return lines.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...lines] };
}
