/** A service with one profile: counts the runs of its handler, scripts its answers, and has a manual clock. */

import { attemptOf, withIdempotency } from "../../src/http/fetch.ts";
import type { HttpAttempt } from "../../src/http/http-attempt.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { createGuard, type GuardOptions } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { type ManualClock, manualClock } from "../../src/testing/manual-clock.ts";
import { deferred } from "../deferred.ts";

export interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string is sent unchanged, any other value as JSON. */
  readonly body?: unknown;
}

export interface Scene {
  readonly clock: ManualClock;
  /** How often the handler ran. */
  runs(): number;
  /** Replaces the handler. */
  answers(
    handler: (request: Request, attempt: HttpAttempt | undefined) => Response | Promise<Response>,
  ): void;
  send(sent?: Sent): Promise<Response>;
}

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

export function scene(
  options: Partial<HttpOptions<Request>>,
  guardOptions: Partial<GuardOptions> = {},
): Scene {
  const clock = manualClock();
  const guard = createGuard({ store: memoryStore({ clock }), purgeEveryMs: 0, ...guardOptions });
  let runs = 0;
  let handler: Parameters<Scene["answers"]>[0] = () => Response.json({ id: runs }, { status: 201 });
  const serve = withIdempotency(guard, { scope: "anyone", clock, ...options }, (request: Request) => {
    runs++;
    return handler(request, attemptOf(request));
  });
  return {
    clock,
    runs: () => runs,
    answers(next) {
      handler = next;
    },
    send: ({ method = "POST", path = "/orders", headers = {}, body = { amount: 5 } } = {}) =>
      serve(requestOf(method, path, headers, body)),
  };
}

function requestOf(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: unknown,
): Request {
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Request(`http://service.test${path}`, {
    method,
    headers: { ...(hasBody ? { "content-type": "application/json" } : {}), ...headers },
    ...(hasBody ? { body: typeof body === "string" ? body : JSON.stringify(body) } : {}),
  });
}

/** A handler that waits until it may answer, and a promise that resolves when it has started. */
export function slow(answer: () => Response): {
  handler: () => Promise<Response>;
  began: Promise<void>;
  finish(): void;
} {
  const { promise: began, resolve: begin } = deferred();
  const { promise: finished, resolve: finish } = deferred();
  return {
    began,
    finish,
    async handler() {
      begin();
      await finished;
      return answer();
    },
  };
}
