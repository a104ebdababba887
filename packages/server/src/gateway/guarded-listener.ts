/** The idempotency layer with the proxy as its handler: the response of the service is the outcome of the handler. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Guard } from "nevertwice";
import { isNevertwiceError } from "nevertwice";
import type { HttpAttempt, HttpOptions } from "nevertwice/http";
import { idempotency } from "nevertwice/http/node";
import type { BufferedBytes } from "./buffered-bytes.ts";
import { isUpstreamLost, PROBLEMS } from "./gateway-errors.ts";
import type { ReverseProxy } from "./proxy.ts";

export type GuardedListener = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

export interface GuardedOptions extends HttpOptions<IncomingMessage> {
  /** What happens to the key if the connection to the service is lost after the request was sent. */
  readonly onUpstreamLost: "unknown" | "release";
}

export interface GuardedParts {
  readonly guard: Guard;
  readonly proxy: ReverseProxy;
  readonly buffered: BufferedBytes;
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
  return layer(createProxyHandler(parts));
}

/** The proxy as a handler of the layer. */
export function createProxyHandler({ proxy, buffered }: Omit<GuardedParts, "guard">) {
  return (req: IncomingMessage, res: ServerResponse, attempt: HttpAttempt | undefined): Promise<void> => {
    buffered.stopCounting(req);
    if (attempt === undefined) return proxy.forward(req, res);
    const hold = (bytes: number) => buffered.takeForAnswer(res, bytes);
    return proxy.forward(req, res, { fence: attempt.fence, hold }).catch((error) => {
      throw markNotDone(error, attempt);
    });
  };
}

/** Frees the key if the request never reached the service, so that nothing was done. */
function markNotDone(error: unknown, attempt: HttpAttempt): unknown {
  const isUnsent =
    isNevertwiceError(error, "upstream-unreachable") || isNevertwiceError(error, "request-invalid");
  return isUnsent ? attempt.notDone(error) : error;
}
