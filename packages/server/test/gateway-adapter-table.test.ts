/** The gateway before a service of Express that knows nothing: every exchange that an adapter is held to. */
import { createServer, type IncomingMessage } from "node:http";
import express, { type NextFunction, type Request, type Response } from "express";
import { type AdapterHarness, adapterCases } from "nevertwice/testing";
import { describe, expect, test } from "vitest";
import { answerBy } from "../../nevertwice/test/http/adapters/express.ts";
import { listening, seenOn, stopping } from "../../nevertwice/test/http/adapters/sockets.ts";
import { bridge } from "./gateway/bridge.ts";

const harness: AdapterHarness<IncomingMessage> = {
  header: (request, name) => request.headersDistinct[name]?.join(", "),
  lacks: {
    flush: "a head that is kept with its answer waits for it, and nobody sees from afar that it was flushed",
    "parser-before": "the service's parser is behind the gateway",
  },
  async serve({ layer, parser, handle }) {
    const { listener, stop } = await bridge({
      layer,
      service(attemptOf) {
        const app = express();
        if (parser === "after") app.use([express.json(), express.urlencoded({ extended: false })]);
        app.use((req: Request, res: Response, next: NextFunction) => {
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

/** Asked elsewhere, of the gateway's own memory: `gateway-streams.test.ts`. */
const ELSEWHERE = {
  "while an answer is held back its producer is not read on":
    "the sockets between service and gateway take megabytes that are in neither's memory",
};

describe("the gateway before Express", { concurrent: true, timeout: 60_000 }, () => {
  for (const { subject, name, skip = ELSEWHERE[name as keyof typeof ELSEWHERE], run } of adapterCases(
    harness,
  )) {
    if (skip === undefined) test(`${subject}: ${name}`, run);
    else test(`${subject}: ${name} (not asked: ${skip})`, () => expect(skip).toMatch(/\w \w/));
  }
});
