/** The service of the HTTP conformance rows, with its handler behind the gateway instead of behind the layer. */
import { EventEmitter, once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { onTestFinished } from "vitest";
import { createEngine, type GuardOptions } from "../../../nevertwice/src/core/engine.ts";
import type { GuardEvent } from "../../../nevertwice/src/core/observer.ts";
import { randomToken } from "../../../nevertwice/src/core/token.ts";
import { memoryStore } from "../../../nevertwice/src/stores/memory.ts";
import type { Handler, Service, ServiceOptions } from "../../../nevertwice/test/http/conformance/service.ts";
import { bridge } from "./bridge.ts";

type Listen = typeof import("../../../nevertwice/test/http/conformance/service.ts").listen;

const ordered: Handler = ({ res, run, attempt }) => {
  res.writeHead(201, { "Content-Type": "application/json", Location: `/orders/${run}` });
  res.end(JSON.stringify({ order: run, key: attempt?.key }));
};

/** `serve` of the conformance rows, through the gateway. */
export function servingThrough(listen: Listen): (settings?: ServiceOptions) => Promise<Service> {
  return async (settings = {}) => {
    const { handler = ordered, time } = settings;
    const store = settings.store ?? memoryStore(time === undefined ? {} : { clock: time.clock });
    const events: GuardEvent[] = [];
    const told = new EventEmitter();
    const guardOptions: GuardOptions = {
      store,
      purgeEveryMs: 0,
      observer(event) {
        events.push(event);
        told.emit(event.kind);
      },
      ...settings.guard,
    };
    const guard =
      time === undefined
        ? createEngine(guardOptions)
        : createEngine(guardOptions, { timer: time.timer, random: () => 0.5, newToken: randomToken });
    let runs = 0;
    const clock = time === undefined ? {} : { clock: time.clock };
    const { listener, stop } = await bridge({
      layer: { guard: guard as never, options: { scope: "anyone", ...clock, ...settings.options } as never },
      service: (attemptOf) => async (req, res) => {
        try {
          await handler({ req, res, attempt: attemptOf(req) as never, run: ++runs });
        } catch {
          failed(req, res);
        }
      },
    });
    onTestFinished(stop);
    onTestFinished(() => void guard.close());
    const client = await listen(listener);
    return {
      ...client,
      guard,
      store,
      events,
      runs: () => runs,
      async happened(kind) {
        if (!events.some((event) => event.kind === kind)) await once(told, kind);
      },
    };
  };
}

/** The response that frameworks send for a handler that throws. */
function failed(_req: IncomingMessage, res: ServerResponse): void {
  if (res.headersSent) res.destroy();
  else res.writeHead(500).end();
}
