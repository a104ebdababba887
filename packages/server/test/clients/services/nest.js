/** The service on Nest. Its decorators are called by hand, since this file is not compiled. */
import "reflect-metadata";
import { Controller, Module, Post, Req, Res } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Idempotent, idempotency } from "nevertwice/http/nest";
import { ANYONE, DERIVED, ROUTES } from "./door.js";

/** @type {import("./door.js").OpenDoor} */
export async function open({ guard, port, serve }) {
  class Orders {}
  for (const [index, { path, options }] of ROUTES.entries()) {
    /**
     * @param {import("express").Request} request
     * @param {import("express").Response} response
     */
    const value = async (request, response) => {
      const answer = await serve(JSON.stringify(request.body), {
        key: request.idempotency?.deriveKey(DERIVED),
      });
      response.status(answer?.status ?? 500);
      return answer?.body;
    };
    const method = { value, writable: true, configurable: true };
    const name = `order${index}`;
    Object.defineProperty(Orders.prototype, name, method);
    Post(path)(Orders.prototype, name, method);
    Idempotent(options)(Orders.prototype, name, method);
    Req()(Orders.prototype, name, 0);
    Res({ passthrough: true })(Orders.prototype, name, 1);
  }
  Controller()(Orders);
  class App {}
  Module({ imports: [idempotency(guard(), ANYONE)], controllers: [Orders] })(App);
  const app = await NestFactory.create(App, { logger: false });
  await app.listen(port, "127.0.0.1");
  return app.getHttpServer().address();
}
