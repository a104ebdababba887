/** A Nest application with node-idempotency's module, written without decorators' syntax. */
import "reflect-metadata";
import { Readable } from "node:stream";
import nest from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import idempotency from "@node-idempotency/nestjs";
import { closeServer } from "../express-server.js";

const { All, Controller, Module, Req, Res, StreamableFile } = nest;
const { Idempotent, NodeIdempotencyModule } = idempotency;

export async function startNest({ storage, handle, retentionMs, application = "shop" }) {
  class EveryRoute {
    async answer(req, res) {
      const request = { method: req.method, path: req.path, headers: req.headers, body: req.body };
      const { status, headers = {}, json, body, chunks } = await handle(request);
      res.status(status);
      for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
      if (json !== undefined) return json;
      if (chunks !== undefined)
        return new StreamableFile(Readable.from(chunks.map((each) => Buffer.from(each))));
      return Buffer.isBuffer(body) ? new StreamableFile(body) : body;
    }
  }
  decorate(EveryRoute, [Controller(), Idempotent()]);
  const descriptor = Object.getOwnPropertyDescriptor(EveryRoute.prototype, "answer");
  All("*")(EveryRoute.prototype, "answer", descriptor);
  Req()(EveryRoute.prototype, "answer", 0);
  Res({ passthrough: true })(EveryRoute.prototype, "answer", 1);

  class App {}
  decorate(App, [
    Module({
      imports: [
        NodeIdempotencyModule.forRootAsync({
          storage: { adapter: storage },
          cacheTTLMS: retentionMs ?? 86_400_000,
          cacheKeyPrefix: application,
        }),
      ],
      controllers: [EveryRoute],
    }),
  ]);

  const app = await NestFactory.create(App, { logger: false });
  await app.listen(0, "127.0.0.1");
  const server = app.getHttpServer();
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async close() {
      await closeServer(server);
      await app.close();
    },
  };
}

function decorate(target, decorators) {
  for (const each of decorators) each(target);
}
