/**
 * The same small application on each framework: a JSON body in, a JSON answer of 1,000 bytes out. `/slow-charges` takes a
 * while, so that duplicates can meet. Each factory resolves to the port it listens on and a way to close it.
 */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

const HOST = "127.0.0.1";
const SLOW_MS = 20;

export const apps = { express: startExpress, fastify: startFastify, hono: startHono };

async function startExpress({ layer, isAnswered, charge }) {
  const { default: express } = await import("express");
  const app = express();
  app.use(express.json());
  if (layer !== undefined) app.use(layer);
  app.post("/charges", (req, res) => {
    if (isAnswered?.(req)) return;
    res.status(201).json(charge(req.body.order));
  });
  app.post("/slow-charges", async (req, res) => {
    if (isAnswered?.(req)) return;
    await sleep(SLOW_MS);
    res.status(201).json(charge(req.body.order));
  });
  const server = app.listen(0, HOST);
  await once(server, "listening");
  return { port: server.address().port, close: () => closed(server) };
}

async function startFastify({ layer, charge }) {
  const { fastify } = await import("fastify");
  const app = fastify();
  if (layer !== undefined) await app.register(layer);
  app.post("/charges", (request, reply) => {
    reply.code(201).send(charge(request.body.order));
  });
  app.post("/slow-charges", async (request, reply) => {
    await sleep(SLOW_MS);
    return reply.code(201).send(charge(request.body.order));
  });
  await app.listen({ port: 0, host: HOST });
  return { port: app.server.address().port, close: () => closed(app.server) };
}

async function startHono({ layer, charge }) {
  const [{ Hono }, { serve }] = await Promise.all([import("hono"), import("@hono/node-server")]);
  const app = new Hono();
  if (layer !== undefined) app.use(layer);
  app.post("/charges", async (c) => {
    const { order } = await c.req.json();
    return c.json(charge(order), 201);
  });
  app.post("/slow-charges", async (c) => {
    const { order } = await c.req.json();
    await sleep(SLOW_MS);
    return c.json(charge(order), 201);
  });
  const server = serve({ fetch: app.fetch, port: 0, hostname: HOST });
  await once(server, "listening");
  return { port: server.address().port, close: () => closed(server) };
}

async function closed(server) {
  server.close();
  server.closeAllConnections();
  await once(server, "close");
}
