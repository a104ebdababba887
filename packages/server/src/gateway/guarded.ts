/** The layer with the proxy as its handler: what the service did is what the handler did. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Guard } from "nevertwice";
import { isNevertwiceError } from "nevertwice";
import type { HttpAttempt, HttpOptions } from "nevertwice/http";
import { idempotency } from "nevertwice/http/node";
import type { Buffered } from "./buffered.ts";
import { isLost, PROBLEMS } from "./failure.ts";
import type { ReverseProxy } from "./proxy.ts";

export type Listener = (req: IncomingMessage, res: ServerResponse) => Promise<void>;

export interface GuardedOptions extends HttpOptions<IncomingMessage> {
  /** What becomes of the key if the service was lost after the request was sent. */
  readonly onUpstreamLost: "unknown" | "release";
}

export interface GuardedParts {
  readonly guard: Guard;
  readonly proxy: ReverseProxy;
  readonly buffered: Buffered;
}

/** Rejects with what kept the proxy from answering; then nothing was answered. */
export function guarded(parts: GuardedParts, { onUpstreamLost, ...options }: GuardedOptions): Listener {
  const layer = idempotency<IncomingMessage>(parts.guard, {
    ...PROBLEMS,
    // What is known not to have reached the service says so itself; of anything else nobody knows.
    onFailure: (error) => (isLost(error) ? onUpstreamLost : "unknown"),
    ...options,
  });
  return layer(handing(parts));
}

/** The proxy as a handler. */
export function handing({ proxy, buffered }: Omit<GuardedParts, "guard">) {
  return (req: IncomingMessage, res: ServerResponse, attempt: HttpAttempt | undefined): Promise<void> => {
    buffered.stopCounting(req);
    if (attempt === undefined) return proxy.forward(req, res);
    const hold = (bytes: number) => buffered.takeForAnswer(res, bytes);
    return proxy.forward(req, res, { fence: attempt.fence, hold }).catch((error) => {
      throw judged(error, attempt);
    });
  };
}

/** Nothing has reached the service: nothing was done, and the key is free. */
function judged(error: unknown, attempt: HttpAttempt): unknown {
  const isNothing =
    isNevertwiceError(error, "upstream-unreachable") || isNevertwiceError(error, "request-invalid");
  return isNothing ? attempt.notDone(error) : error;
}
