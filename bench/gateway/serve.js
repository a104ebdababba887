/**
 * One part of the measurement in its own process: the service, the proxy in front of it with or without its layer, or the
 * server whose API is measured.
 */
import { createServer as createHttpServer } from "node:http";
import { BlockList } from "node:net";
import { createProxy } from "../../packages/server/dist/src/gateway/proxy.js";
import { createServer } from "../../packages/server/dist/src/index.js";
import { openDatabase } from "../databases/sqlite.js";
import { answerMessages, charge, plan } from "../http/counted-app.js";

const HOST = "127.0.0.1";
const { role, upstream, accessToken } = plan;
const roles = { service, plain, gateway: () => server({ upstream }), api: () => server({}) };
answerMessages(await roles[role]());

/** Answers with a thousand bytes of JSON, and does nothing else. */
async function service() {
  return listening(
    createHttpServer((req, res) => {
      const chunks = [];
      req.on("data", (chunk) => chunks.push(chunk));
      req.on("end", () => {
        const { order } = JSON.parse(Buffer.concat(chunks).toString());
        const body = JSON.stringify(charge(order));
        res.writeHead(201, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
        res.end(body);
      });
    }),
  );
}

async function plain() {
  const proxy = createProxy({
    upstream,
    timeoutMs: 60_000,
    keepAliveMs: 4_000,
    maxConnections: 1_000,
    host: "client",
    trusted: new BlockList(),
    kept: new Set(),
  });
  return listening(
    createHttpServer((req, res) => void proxy.forward(req, res).catch(() => res.destroy())),
    () => proxy.close(),
  );
}

async function server(more) {
  const target = await openDatabase();
  const made = await createServer({
    store: `sqlite:${target.file}`,
    listen: { host: HOST, port: 0 },
    gatewayListen: { host: HOST, port: 0 },
    logLevel: "silent",
    accessToken,
    ...(more.upstream !== undefined && { ...more, gatewayScope: { header: "Authorization" } }),
  });
  const { url, gatewayUrl } = await made.listen();
  return {
    port: Number(new URL(gatewayUrl ?? url).port),
    async close() {
      await made.close();
      await target.close();
    },
  };
}

async function listening(made, ended = () => {}) {
  await new Promise((resolve) => void made.listen(0, HOST, resolve));
  return {
    port: made.address().port,
    async close() {
      const closed = new Promise((resolve) => void made.close(resolve));
      made.closeAllConnections();
      ended();
      await closed;
    },
  };
}
