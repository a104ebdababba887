/** The idempotency layer with the proxy as its handler: the response of the service is the outcome of the handler. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Guard } from "nevertwice";
import { isNevertwiceError } from "nevertwice";
import {
  type HeaderLine,
  type HttpAttempt,
  type HttpOptions,
  type KeepDecision,
  retryAdvice,
} from "nevertwice/http";
import { idempotency } from "nevertwice/http/node";
import type { Regions } from "../regions/regions.ts";
import type { BufferedBytes } from "./buffered-bytes.ts";
import { asRepeatable, asUnrepeatable, disagreeingError, isUpstreamLost } from "./gateway-errors.ts";
import { decisionFor, looksTransient } from "./kept-statuses.ts";
import type { ReverseProxy } from "./proxy.ts";
import { PROBLEMS } from "./refusals.ts";

export type GuardedListener = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

export interface GuardedOptions extends HttpOptions<IncomingMessage> {
  /** What happens to the key for a response status or class. */
  readonly keep: Readonly<Record<string, KeepDecision>>;
  /** What happens to the key if the connection to the service is lost after the request was sent. */
  readonly onUpstreamLost: "unknown" | "release";
}

export interface GuardedParts {
  readonly guard: Guard;
  readonly proxy: ReverseProxy;
  readonly buffered: BufferedBytes;
  /** Undefined if the server has no region. */
  readonly regions?: Regions | undefined;
}

/** The listener rejects if the proxy could not answer; then no response was started. */
export function createGuardedListener(
  parts: GuardedParts,
  { onUpstreamLost, ...options }: GuardedOptions,
): GuardedListener {
  const layer = idempotency<IncomingMessage>(parts.guard, {
    ...PROBLEMS,
    // `markNotDone` handles requests that never reached the service; the outcome of all others is unknown.
    onFailure: (error) => (isUpstreamLost(error) ? onUpstreamLost : "unknown"),
    ...options,
  });
  const { profile = "ietf", keep, onLapsed, reconcile } = options;
  const canDecide = onLapsed !== "hold" || reconcile !== undefined;
  const final = retryAdvice(profile, false);
  return layer(
    createProxyHandler(parts, {
      canRepeat: onUpstreamLost === "release" || canDecide,
      advise(status) {
        const decision = looksTransient(status) ? decisionFor(status, keep) : "release";
        return decision === "release" || (decision === "unknown" && canDecide) ? undefined : final;
      },
    }),
  );
}

export interface ProxyHandlerOptions {
  /** Whether a retry with the same key helps after the service was lost. */
  readonly canRepeat: boolean;
  /** The header line that tells a client, for a response with this status, whether a retry can help. */
  readonly advise?: (status: number) => HeaderLine | undefined;
}

/** The proxy as a handler of the layer. */
export function createProxyHandler(
  { proxy, buffered, regions }: Omit<GuardedParts, "guard">,
  { canRepeat, advise }: ProxyHandlerOptions,
) {
  return async (
    req: IncomingMessage,
    res: ServerResponse,
    attempt: HttpAttempt | undefined,
  ): Promise<void> => {
    if (attempt === undefined) {
      // Only requests with a key are forwarded, so this one lost its key on the way, and would run again with every retry.
      if (regions?.findHop(req) !== undefined) throw disagreeingError("the key");
      buffered.stopCounting(req);
      return proxy.forward(req, res).catch((error) => {
        throw asUnrepeatable(error);
      });
    }
    if (regions !== undefined)
      await regions.confirmHome(req).catch((error) => {
        throw attempt.notDone(error);
      });
    buffered.stopCounting(req);
    const hold = (bytes: number) => buffered.takeForAnswer(res, bytes);
    const { fence, number } = attempt;
    const sent = { key: attempt.deriveKey(SERVICE), fence, number };
    return proxy.forward(req, res, { attempt: sent, hold, advise }).catch((error) => {
      throw markNotDone(canRepeat ? asRepeatable(error) : error, attempt);
    });
  };
}

/** Names the key that the service receives in `Nevertwice-Key`, and `reconcile` asks about. */
export const SERVICE = "service";

/** Frees the key if the request never reached the service, so that nothing was done. */
function markNotDone(error: unknown, attempt: HttpAttempt): unknown {
  const isUnsent =
    isNevertwiceError(error, "upstream-unreachable") || isNevertwiceError(error, "request-invalid");
  return isUnsent ? attempt.notDone(error) : error;
}
