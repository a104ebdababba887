/** Tests how a server leaves its load balancer, at both of its addresses: readiness first, then the answers, idle connections last. */
import { EventEmitter, once } from "node:events";
import { Agent, type IncomingMessage, request, type Server } from "node:http";
import { setTimeout } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { untilQuiet } from "../src/departure.ts";
import { KEEP_ALIVE_TIMEOUT_MS } from "../src/keep-alive-timeout.ts";
import { createServer } from "../src/server.ts";
import { SETTINGS } from "../src/server-settings.ts";
import { gate, serviceOn } from "./gateway/stage.ts";

/** Sends requests one after another over one connection, which it keeps open. */
function keptConnection(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  let sockets = 0;
  return async (path: string, key?: string) => {
    const sent = request(url + path, {
      agent,
      ...(key !== undefined && { method: "POST", headers: { "idempotency-key": `"${key}"` } }),
    });
    sent.once("socket", () => {
      if (!sent.reusedSocket) sockets++;
    });
    sent.end();
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    response.resume();
    await once(response, "end");
    return { status: response.statusCode, connection: response.headers.connection, sockets };
  };
}

async function startServer(drainDelay: number, drain = 30_000) {
  const opened = gate();
  const asked = gate();
  const upstream = await serviceOn(async (req, res) => {
    if (req.url === "/slow") {
      asked.resolve();
      await opened.promise;
    }
    res.writeHead(201).end("done");
  });
  const server = await createServer({
    store: "memory:",
    upstream: `http://127.0.0.1:${upstream}`,
    gatewayScope: "anyone",
    listen: { host: "127.0.0.1", port: 0 },
    gatewayListen: { host: "127.0.0.1", port: 0 },
    logLevel: "silent",
    drainDelay,
    drain,
  });
  const { url, gatewayUrl = "" } = await server.listen();
  let ended: Promise<void> | undefined;
  const close = (): Promise<void> => {
    ended ??= server.close();
    return ended;
  };
  onTestFinished(() => {
    opened.resolve();
    return close();
  });
  return { server, url, gatewayUrl, close, asked, opened };
}

const isRefused = (url: string) =>
  fetch(url).then(
    () => false,
    () => true,
  );

describe("a server that is told to stop", () => {
  test("is not ready at once, but still accepts connections", async () => {
    const { server, url, close } = await startServer(2_000, 0);
    const api = keptConnection(url);
    expect((await api("/readyz")).status).toBe(200);
    const closing = close();
    expect(server.app.server.listening).toBe(true);
    expect((await api("/readyz")).status).toBe(503);
    await closing;
  });

  test.each(["api", "gateway"])(
    "answers on idle connections of the %s, each for the last time",
    async (which) => {
      const { url, gatewayUrl, close } = await startServer(50);
      const address = which === "api" ? url : gatewayUrl;
      const ask = keptConnection(address);
      const path = which === "api" ? "/healthz" : "/orders";
      expect((await ask(path, which === "api" ? undefined : "a")).connection).toBe("keep-alive");
      const closing = close();
      await expect.poll(() => isRefused(address + path)).toBe(true);
      const last = await ask(path, which === "api" ? undefined : "b");
      expect(last).toEqual({ status: which === "api" ? 200 : 201, connection: "close", sockets: 1 });
      await closing;
    },
  );

  test("answers a request that runs, and says that its connection closes", async () => {
    const { gatewayUrl, close, asked, opened } = await startServer(50);
    const slow = keptConnection(gatewayUrl)("/slow", "k");
    await asked.promise;
    const closing = close();
    await expect.poll(() => isRefused(gatewayUrl)).toBe(true);
    opened.resolve();
    expect(await slow).toMatchObject({ status: 201, connection: "close" });
    await closing;
  });

  test("without a delay closes idle connections at once", async () => {
    const { url, close } = await startServer(0);
    const ask = keptConnection(url);
    await ask("/healthz");
    await close();
    await expect(ask("/healthz")).rejects.toThrow();
  });
});

test("an address closes in a moment in which no connection arrives", async () => {
  const server = new EventEmitter() as unknown as Server;
  let isQuiet = false;
  const quiet = untilQuiet(server).then(() => {
    isQuiet = true;
  });
  for (let i = 0; i < 40; i++) {
    server.emit("connection");
    await setTimeout(10);
  }
  expect(isQuiet).toBe(false);
  await quiet;
});

test("both addresses keep idle connections for longer than load balancers reuse them", () => {
  expect([KEEP_ALIVE_TIMEOUT_MS, SETTINGS.clientKeepAlive.default]).toEqual([72_000, 72_000]);
});
