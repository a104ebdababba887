/** Health checks, which need no access token, and metrics, which need a role. */
import type { FastifyInstance } from "fastify";
import { isNevertwiceError, NevertwiceError } from "nevertwice";
import { visibleNamespace, WATCHERS } from "./access.ts";
import type { Context } from "./context.ts";
import type { Departure } from "./departure.ts";
import type { Gatekeeper } from "./gatekeeper.ts";
import type { Gauges } from "./gauges.ts";
import type { Metrics } from "./metrics.ts";
import { sendProblem } from "./problems.ts";

export interface HealthParts {
  readonly context: Context;
  readonly metrics: Metrics;
  readonly gauges: Gauges;
  readonly gatekeeper: Gatekeeper;
  readonly departure: Departure;
}

export function registerHealth(
  app: FastifyInstance,
  { context, metrics, gauges, gatekeeper, departure }: HealthParts,
): void {
  app.get("/healthz", async () => ({ status: "ok" }));
  app.get("/readyz", async (_request, reply) => {
    try {
      if (departure.isAnnounced) throw stoppingError();
      await context.guard(context.settings.namespace).ready();
      return { status: "ready" };
    } catch (error) {
      if (isNevertwiceError(error)) return sendProblem(reply, error);
      throw error;
    }
  });
  app.get("/metrics", async (request, reply) => {
    const caller = await gatekeeper.authenticate(request.raw);
    gatekeeper.checkRole(caller, WATCHERS);
    const namespace = visibleNamespace(caller);
    const text = metrics.text(namespace, await gauges.read(namespace));
    return reply.type("text/plain; version=0.0.4").send(text);
  });
}

function stoppingError(): NevertwiceError {
  return new NevertwiceError("unavailable", "this server is stopping; send requests to another one.");
}
