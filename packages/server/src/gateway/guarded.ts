/** The layer with the proxy as its handler: what the service did is what the handler did. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Guard } from "nevertwice";
import { isNevertwiceError } from "nevertwice";
import type { HttpAttempt, HttpOptions } from "nevertwice/http";
import { idempotency } from "nevertwice/http/node";
import { isLost, PROBLEMS } from "./failure.ts";
import type { ReverseProxy } from "./proxy.ts";

export type Listener = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

export interface GuardedOptions extends HttpOptions<IncomingMessage> {
  /** What becomes of the key if the service was lost after the request was sent. */
  readonly onUpstreamLost: "unknown" | "release";
}

/** Rejects with what kept the proxy from answering; then nothing was answered. */
export function guarded(
  guard: Guard,
  proxy: ReverseProxy,
  { onUpstreamLost, ...options }: GuardedOptions,
): Listener {
  const layer = idempotency<IncomingMessage>(guard, {
    ...PROBLEMS,
    // What is known not to have reached the service says so itself; of anything else nobody knows.
    onFailure: (error) => (isLost(error) ? onUpstreamLost : "unknown"),
    ...options,
  });
  return layer(handing(proxy));
}

/** The proxy as a handler. */
export function handing(proxy: ReverseProxy) {
  return (req: IncomingMessage, res: ServerResponse, attempt: HttpAttempt | undefined): Promise<void> =>
    proxy.forward(req, res, { fence: attempt?.fence }).catch((error) => {
      throw attempt === undefined ? error : judged(error, attempt);
    });
}

/** Nothing has reached the service: nothing was done, and the key is free. */
function judged(error: unknown, attempt: HttpAttempt): unknown {
  const isNothing =
    isNevertwiceError(error, "upstream-unreachable") || isNevertwiceError(error, "request-invalid");
  return isNothing ? attempt.notDone(error) : error;
}
