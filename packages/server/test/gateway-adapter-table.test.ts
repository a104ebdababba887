/** Tests that the gateway in front of an ordinary Express service passes every case of the adapter table. */
import { createServer, type IncomingMessage } from "node:http";
import express, { type NextFunction, type Request, type RequestHandler, type Response } from "express";
import { type AdapterHarness, adapterCases } from "nevertwice/testing";
import { describe, expect, test } from "vitest";
import { answerBy } from "../../nevertwice/test/http/adapters/express.ts";
import { listening, seenOn, stopping } from "../../nevertwice/test/http/adapters/sockets.ts";
import { bridge } from "./gateway/bridge.ts";

const harness: AdapterHarness<IncomingMessage> = {
  header: (request, name) => request.headersDistinct[name]?.join(", "),
  lacks: {
    flush: "a head that is kept with its answer waits for it, so a client cannot see that it was flushed",
    "parser-before": "the service's parser is behind the gateway",
  },
  async serve({ layer, parser, route, handle }) {
    const { listener, stop } = await bridge({
      layer,
      route: route?.replace(/:(\w+)/g, "{$1}"),
      service(attemptOf) {
        const app = express();
        if (parser === "after") app.use([express.json(), express.urlencoded({ extended: false })]);
        const mount = (handler: RequestHandler) =>
          route === undefined ? app.use(handler) : app.all(route, handler);
        mount((req: Request, res: Response, next: NextFunction) => {
          handle(seenOn(req, parser !== "none", attemptOf(req)))
            .then((answer) => answerBy(res, answer))
            .catch(next);
        });
        app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
          res.status(500).json({ error: error.message });
        });
        return app;
      },
    });
    const server = await listening(createServer(listener));
    const ending = stopping(server);
    return { server, stop: () => Promise.all([ending(), stop()]) };
  },
};

/** Covered by `gateway-streams.test.ts`, which measures the memory of the gateway. */
const ELSEWHERE = {
  "while an answer is held back, its producer is paused":
    "the sockets between service and gateway take megabytes that are in neither's memory",
};

describe("the gateway in front of Express", { concurrent: true, timeout: 60_000 }, () => {
  test("the cases that are covered elsewhere exist", () => {
    const names = adapterCases(harness).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(Object.keys(ELSEWHERE)));
  });

  for (const { subject, name, skip = ELSEWHERE[name as keyof typeof ELSEWHERE], run } of adapterCases(
    harness,
  )) {
    if (skip === undefined) test(`${subject}: ${name}`, run);
    else test(`${subject}: ${name} (not asked: ${skip})`, () => expect(skip).toMatch(/\w \w/));
  }
});
