/** Express 5 and 4. */
import type { Server } from "node:http";
import { createRequire } from "node:module";
import express, {
  type Application,
  type NextFunction,
  type Request,
  type RequestHandler,
  type Response,
} from "express";
import { idempotency } from "../../../src/http/express.ts";
import type { AdapterHarness, ScriptedAnswer } from "../../../src/testing/adapter-cases.ts";
import { headerOf, headersOf, putBody, seenOn, stopping } from "./sockets.ts";

/** As handlers of Express answer. */
export async function answerBy(res: Response, answer: ScriptedAnswer): Promise<void> {
  const { status, reason, body } = answer;
  if (reason !== undefined) res.statusMessage = reason;
  res.status(status);
  for (const [name, values] of headersOf(answer)) res.set(name, values);
  const location = headerOf(answer, "location");
  switch (body.kind) {
    case "json":
      res.json(body.value);
      return;
    case "text":
      res.send(body.text);
      return;
    case "bytes":
      res.send(Buffer.from(body.bytes));
      return;
    case "empty":
      if (status === 303 && location !== undefined) res.redirect(303, location);
      else res.send();
      return;
    default:
      await putBody(res, answer);
  }
}

function harnessOf(create: typeof express): AdapterHarness<Request> {
  return {
    header: (request, name) => request.get(name),
    async serve({ layer, parser, route, handle }) {
      const app: Application = create();
      const mount = (handler: RequestHandler) =>
        route === undefined ? app.use(handler) : app.all(route, handler);
      const parsers = [create.json(), create.urlencoded({ extended: false })];
      if (parser === "before") app.use(parsers);
      if (layer !== undefined) mount(idempotency(layer.guard, layer.options));
      if (parser === "after") app.use(parsers);
      mount((req: Request, res: Response, next: NextFunction) => {
        const seen = seenOn(req, parser !== "none", req.idempotency);
        // Express 4 ignores the promise of a handler.
        handle(seen)
          .then((answer) => answerBy(res, answer))
          .catch(next);
      });
      app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
        res.status(500).json({ error: error.message });
      });
      const server = await new Promise<Server>((resolve) => {
        const started = app.listen(0, "127.0.0.1", () => resolve(started));
      });
      return { server, stop: stopping(server) };
    },
  };
}

export const expressHarness = harnessOf(express);
/** The alias has no types. The members that are used here are the same as in Express 5. */
export const express4Harness = harnessOf(createRequire(import.meta.url)("express4") as typeof express);
