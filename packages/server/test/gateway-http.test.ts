/** Tests what the gateway forwards: headers, bodies, upgrades and addresses; and how it closes. */
import { once } from "node:events";
import { Agent, createServer, type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import { gate, gatewayBefore, raw, read, send, serviceOn } from "./gateway/stage.ts";

/** A service that returns the request that it got. */
function telling(): Promise<number> {
  return serviceOn(async (req, res) => {
    const body = await read(req);
    const { method, url, headers, trailers } = req;
    res.setHeader("Content-Type", "application/json");
    res.end(JSON.stringify({ method, url, headers, trailers, body }));
  });
}

describe("a request's headers", () => {
  const head = (lines: readonly string[]) =>
    `GET /a?b=c HTTP/1.1\r\nHost: localhost\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n`;
  const seen = async (lines: readonly string[], given = {}) => {
    const { port } = await gatewayBefore(await telling(), given);
    const said = await raw(port, head([...lines]));
    return JSON.parse(said.slice(said.indexOf("{"), said.lastIndexOf("}") + 1));
  };

  test("of one connection are not forwarded, nor those that Connection names", async () => {
    const { headers } = await seen([
      "Connection: close, X-Hop",
      "X-Hop: 1",
      "Keep-Alive: timeout=9",
      "TE: trailers",
      "Proxy-Authorization: Basic x",
      "X-End: 2",
    ]);
    expect(headers).toMatchObject({ "x-end": "2", connection: "keep-alive" });
    expect(Object.keys(headers)).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/^(x-hop|keep-alive|te|proxy-authorization)$/)]),
    );
  });

  test("that identify the caller cannot be removed by Connection", async () => {
    const { headers } = await seen(
      ["Connection: close, Authorization, X-Tenant", "Authorization: Bearer me", "X-Tenant: t"],
      { gatewayScope: { header: "X-Tenant" } },
    );
    expect(headers).toMatchObject({ authorization: "Bearer me", "x-tenant": "t" });
  });

  test("that only the gateway may set are removed in every spelling", async () => {
    const { headers } = await seen([
      "Connection: close",
      "Nevertwice-Fence: 9007199254740991",
      "nevertwice_fence: 1",
      "X_Forwarded_For: 1.2.3.4",
    ]);
    expect(JSON.stringify(headers)).not.toMatch(/fence|1\.2\.3\.4/i);
  });

  test("contain the client's real address, and not the one it claims", async () => {
    const { headers } = await seen([
      "Connection: close",
      "X-Forwarded-For: 6.6.6.6",
      "X-Forwarded-Proto: https",
      "X-Forwarded-Host: evil.example",
      "Forwarded: for=6.6.6.6",
      "Via: 1.0 other",
    ]);
    expect(headers).toMatchObject({
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-proto": "http",
      "x-forwarded-host": "localhost",
      forwarded: 'for=127.0.0.1;host="localhost";proto=http',
      via: "1.0 other, 1.1 nevertwice",
      host: "localhost",
    });
  });

  test("contain the values of a trusted proxy", async () => {
    const { headers } = await seen(
      ["Connection: close", "X-Forwarded-For: 6.6.6.6", "X-Forwarded-Proto: https", "Forwarded: for=6.6.6.6"],
      { trustProxy: ["127.0.0.0/8"] },
    );
    expect(headers).toMatchObject({
      "x-forwarded-for": "6.6.6.6, 127.0.0.1",
      "x-forwarded-proto": "https",
      forwarded: 'for=6.6.6.6, for=127.0.0.1;host="localhost";proto=http',
    });
  });

  test("have the service's own Host if so configured", async () => {
    const { headers } = await seen(["Connection: close"], { upstreamHost: "upstream" });
    expect(headers.host).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(headers["x-forwarded-host"]).toBe("localhost");
  });
});

test("response headers pass unchanged, without those of the connection", async () => {
  const port = await serviceOn((_, res) => {
    const lines = [
      "Set-Cookie",
      "a=1",
      "Set-Cookie",
      "b=2",
      "Connection",
      "X-Hop",
      "X-Hop",
      "1",
      "X-End",
      "2",
    ];
    res.writeHead(299, "Fine", [...lines, "Content-Length", "2"]);
    res.end("ok");
  });
  const { send } = await gatewayBefore(port);
  const { status, headers } = await send({ method: "GET" });
  expect(status).toBe(299);
  expect(headers).toMatchObject({
    "set-cookie": ["a=1", "b=2"],
    "x-end": "2",
    "content-length": "2",
    via: "1.1 nevertwice",
  });
  expect(headers["x-hop"]).toBeUndefined();
});

describe("bodies", () => {
  test("of responses with unknown length keep their trailers; trailers of requests are dropped", async () => {
    const port = await serviceOn(async (req, res) => {
      res.writeHead(200, { Trailer: "X-Sum" });
      res.write(`${req.headers.trailer} ${await read(req)} `);
      res.addTrailers({ "X-Sum": req.trailers["x-in"] ?? "none", Host: "evil" });
      res.end();
    });
    const { port: at } = await gatewayBefore(port);
    const said = await raw(
      at,
      "DELETE /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-In\r\n\r\n3\r\nabc\r\n0\r\nX-In: 7\r\nAuthorization: me\r\n\r\n",
    );
    expect(said).toMatch(/Transfer-Encoding: chunked/i);
    expect(said).toContain("undefined abc ");
    expect(said).toMatch(/0\r\nX-Sum: none\r\n\r\n$/);
  });

  test("that are empty are forwarded as empty", async () => {
    const { send } = await gatewayBefore(await telling());
    const { headers, body } = JSON.parse((await send({ body: "", key: "k" })).text);
    expect([headers["content-length"], headers["transfer-encoding"], body]).toEqual(["0", undefined, ""]);
  });

  test("are not sent for HEAD, but their length is", async () => {
    const port = await serviceOn((_, res) => res.writeHead(200, { "Content-Length": 12 }).end());
    const { send } = await gatewayBefore(port);
    const { headers, text } = await send({ method: "HEAD" });
    expect([headers["content-length"], text]).toEqual(["12", ""]);
  });

  test("are asked for by the gateway once it knows the owner", async () => {
    const service = createServer(async (req, res) => res.end(`${req.headers.expect} ${await read(req)}`));
    const { port } = await gatewayBefore(await serviceOn(service), { gatewayScope: { header: "X-Tenant" } });
    const ask = async (method: string, more: Record<string, string>) => {
      const headers = { Expect: "100-continue", "Content-Length": 4, ...more };
      const outgoing = request({ port, method, path: "/", agent: false, headers });
      let isAsked = false;
      outgoing.flushHeaders();
      outgoing.on("continue", () => {
        isAsked = true;
        outgoing.end("four");
      });
      const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
      const text = await read(answer);
      outgoing.destroy();
      return [answer.statusCode, isAsked, answer.statusCode === 200 ? text : JSON.parse(text).code];
    };
    expect(await ask("PUT", {})).toEqual([200, true, "undefined four"]);
    expect(await ask("POST", {})).toEqual([200, true, "undefined four"]);
    const key = { "Idempotency-Key": "k" };
    expect(await ask("POST", { ...key, "X-Tenant": "t" })).toEqual([200, true, "undefined four"]);
    expect(await ask("POST", key)).toEqual([401, false, "not-authenticated"]);
  });
});

test("informational responses are forwarded", async () => {
  const port = await serviceOn((_, res) => {
    res.writeEarlyHints({ link: ["</a.css>; rel=preload", "</b.css>; rel=preload"] });
    res.end("done");
  });
  const { port: at } = await gatewayBefore(port);
  const outgoing = request({ port: at, path: "/", agent: false }).end();
  const [early] = (await once(outgoing, "information")) as [
    { statusCode: number; headers: IncomingMessage["headers"] },
  ];
  expect([early.statusCode, early.headers.link]).toEqual([
    103,
    "</a.css>; rel=preload, </b.css>; rel=preload",
  ]);
});

test("an early head is forwarded at once if the response is not stored", async () => {
  const end = gate();
  const port = await serviceOn(async (_, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
    await end.promise;
    res.end("data: 1\n\n");
  });
  const { port: at } = await gatewayBefore(port);
  for (const [method, key] of [
    ["GET", undefined],
    ["POST", "k"],
  ] as const) {
    const headers = key === undefined ? {} : { "Idempotency-Key": key };
    const outgoing = request({ port: at, method, path: "/", agent: false, headers }).end();
    expect(await once(outgoing, "response")).toHaveLength(1);
    outgoing.destroy();
  }
  end.resolve();
});

describe("upgrades", () => {
  test("to a WebSocket go through, in both directions", async () => {
    const service = createServer();
    new WebSocketServer({ server: service }).on("connection", (socket, req) =>
      socket.on("message", (message) =>
        socket.send(`${req.url} ${req.headers["x-forwarded-for"]} ${message}`),
      ),
    );
    const { port } = await gatewayBefore(await serviceOn(service));
    const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`);
    await once(socket, "open");
    socket.send("hello");
    expect(String((await once(socket, "message"))[0])).toBe("/chat 127.0.0.1 hello");
    socket.close();
    await once(socket, "close");
  });

  test("that the service refuses are refused with its answer", async () => {
    const port = await serviceOn((_, res) => res.writeHead(426).end("no"));
    const { port: at } = await gatewayBefore(port);
    const said = await raw(
      at,
      "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    expect(said).toMatch(/^HTTP\/1\.1 426 .*no/s);
  });

  test("to another HTTP version are ignored, so that requests cannot bypass the rules", async () => {
    let runs = 0;
    let upgrades = 0;
    const service = createServer(async (req, res) => res.end(`run ${++runs} ${await read(req)}`));
    service.on("upgrade", (_, socket) => {
      upgrades++;
      socket.destroy();
    });
    const { port } = await gatewayBefore(await serviceOn(service));
    const wish = "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    const request = `POST /x HTTP/1.1\r\nHost: localhost\r\n${wish}Idempotency-Key: k\r\nContent-Length: 3\r\n\r\nabc`;
    expect(await raw(port, request)).toMatch(/^HTTP\/1\.1 200 .*run 1 abc/s);
    expect(await raw(port, request)).toMatch(new RegExp(`${REPLAYED}: true.*run 1 abc`, "is"));
    expect([runs, upgrades]).toEqual([1, 0]);
  });
});

describe("a gateway on loopback", () => {
  test("refuses a foreign Host, which a page of another site could resolve to this machine", async () => {
    const { send } = await gatewayBefore(await telling());
    expect((await send({ headers: { Host: "evil.example" } })).code()).toBe("not-authorized");
    expect((await send({ headers: { Host: "localhost:1" } })).status).toBe(200);
  });

  test("opens no tunnel for a foreign Host", async () => {
    const { port } = await gatewayBefore(await telling());
    const wish = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    expect(await raw(port, `GET / HTTP/1.1\r\nHost: evil.example\r\n${wish}`)).toMatch(/^HTTP\/1\.1 403 /);
  });

  test("accepts the names of --allow-host", async () => {
    const { send } = await gatewayBefore(await telling(), { allowHost: ["shop.local"] });
    expect((await send({ headers: { Host: "shop.local:8080" } })).status).toBe(200);
  });
});

test("a request with an absolute address is forwarded with its path", async () => {
  const { port } = await gatewayBefore(await telling());
  const said = await raw(
    port,
    "GET http://localhost/a?b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
  );
  expect(said).toContain('"url":"/a?b"');
});

test("closing ends idle connections and tunnels at once, and lets running requests finish", async () => {
  const opened = gate();
  const entered = gate();
  const service = createServer(async (_, res) => {
    entered.resolve();
    await opened.promise;
    res.end("done");
  });
  const sockets = new WebSocketServer({ server: service });
  onTestFinished(() => sockets.close());
  const { port, gateway } = await gatewayBefore(await serviceOn(service));
  const idle = connect(port, "127.0.0.1");
  const tunnel = new WebSocket(`ws://127.0.0.1:${port}/`);
  await Promise.all([once(idle, "connect"), once(tunnel, "open")]);
  const agent = new Agent({ keepAlive: true });
  const running = send(port, { key: "k", agent });
  await entered.promise;
  const ends = Promise.all([once(idle, "close"), once(tunnel, "close")]);
  const closing = gateway.close();
  await ends;
  await expect(send(port, { key: "other" })).rejects.toThrow(/ECONNREFUSED/);
  opened.resolve();
  expect((await running).text).toBe("done");
  await closing;
});
