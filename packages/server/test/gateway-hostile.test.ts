/** Tests hostile clients and services: nothing is smuggled through the gateway, and nothing ends its process. */
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocketServer } from "ws";
import { REPLAYED } from "../../nevertwice/test/http/replayed-header.ts";
import { gatewayBefore, raw, read, serviceOn } from "./gateway/stage.ts";

const CLOSE = "Host: localhost\r\nConnection: close\r\n";

/** A service on a bare socket that records its input and answers each request head with these bytes. */
async function bareService(
  answer: string | Buffer,
): Promise<{ port: number; received(): string; connections(): number }> {
  let received = "";
  let count = 0;
  const server = createNetServer((socket) => {
    count++;
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      if (/\r\n\r\n/.test(chunk.toString("latin1"))) socket.write(answer);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return {
    port: (server.address() as AddressInfo).port,
    received: () => received,
    connections: () => count,
  };
}

/** A service that counts its runs and returns the request that it got. */
async function countingService() {
  const asked: string[] = [];
  const service = createServer(async (req, res) => {
    const body = await read(req);
    asked.push(`${req.method} ${req.url} ${body}`);
    res.end(`run ${asked.length}`);
  });
  return { service, asked, port: await serviceOn(service) };
}

describe("an upgrade with a body", () => {
  const inner = "POST /payments HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nstolen";
  const routes = [
    { path: "/payments", methods: ["POST"], required: true, scope: "anyone", onUpstreamLost: "unknown" },
  ] as const;

  test.each([
    ["a length", `Content-Length: ${inner.length}\r\n\r\n${inner}`],
    ["chunks", `Transfer-Encoding: chunked\r\n\r\n${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`],
  ])("by %s is an ordinary request, and its body is never read as a second request", async (_, framed) => {
    const { asked, port } = await countingService();
    const gateway = await gatewayBefore(port, { routes });
    const upgrade = "Host: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n";
    expect(await raw(gateway.port, `GET /ws HTTP/1.1\r\n${upgrade}${framed}`)).toMatch(/^HTTP\/1\.1 200 /);
    expect((await gateway.send({ path: "/next", method: "GET" })).text).toBe("run 2");
    expect(asked).toEqual([`GET /ws ${inner}`, "GET /next "]);
  });

  test("that the service refuses leaves no connection for other requests", async () => {
    const answer = "HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno";
    const service = await bareService(answer);
    const { port, send } = await gatewayBefore(service.port);
    const upgrade = "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    expect(await raw(port, `GET /ws HTTP/1.1\r\n${upgrade}`)).toMatch(/^HTTP\/1\.1 400 .*no$/s);
    await send({ method: "GET" });
    expect(service.connections()).toBe(2);
  });
});

describe("a request that names a trailer", () => {
  test.each([
    [
      "with an upgrade",
      "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nTrailer: x\r\n\r\n",
      /^HTTP\/1\.1 (200|101) /,
    ],
    ["without a body", `${CLOSE}Trailer: x\r\n\r\n`, /^HTTP\/1\.1 200 /],
    ["with a length", `${CLOSE}Trailer: x\r\nContent-Length: 2\r\n\r\nab`, /^HTTP\/1\.1 200 /],
  ])("%s is answered", async (_, head, wanted) => {
    const { service, port } = await countingService();
    const sockets = new WebSocketServer({ server: service });
    onTestFinished(() => sockets.close());
    const { port: at } = await gatewayBefore(port);
    const socket = connect(at, "127.0.0.1", () => socket.write(`GET / HTTP/1.1\r\n${head}`));
    const [said] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(said.toString()).toMatch(wanted.source.includes("101") ? /^HTTP\/1\.1 [1-4]/ : wanted);
  });
});

describe("an answer of the service", () => {
  const withLatin1 = Buffer.from(
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Disposition: attachment; filename="na\u00efve.txt"\r\n\r\nok',
    "latin1",
  );

  test.each<[string, string | Buffer, string, RegExp]>([
    [
      "that is announced by hints with a quoted list",
      'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel="preload stylesheet"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a\.css>; rel="preload stylesheet"\r\n\r\nHTTP\/1\.1 200 OK\r\n.*ok$/s,
    ],
    ["with latin1 after its length", withLatin1, "GET / HTTP/1.1", /filename="na\u00efve\.txt".*ok$/s],
    [
      "with a trailer and a length",
      "HTTP/1.1 200 OK\r\nTrailer: x\r\nContent-Length: 2\r\n\r\nok",
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 200 OK\r\n(?!.*Trailer).*ok$/s,
    ],
    [
      "with a trailer and no content",
      "HTTP/1.1 204 No\r\nTrailer: x\r\n\r\n",
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 204 /,
    ],
    [
      "with a trailer, to HTTP/1.0",
      "HTTP/1.1 200 OK\r\nTrailer: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: 1\r\n\r\n",
      "GET / HTTP/1.0",
      /^HTTP\/1\.1 200 OK\r\n(?!.*Trailer).*ok$/s,
    ],
    [
      "with a trailer, to HEAD",
      "HTTP/1.1 200 OK\r\nTrailer: x\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HEAD / HTTP/1.1",
      /^HTTP\/1\.1 200 OK\r\n/,
    ],
    [
      "with status 099",
      "HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok",
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 502 .*upstream-lost/s,
    ],
    [
      "with a control character in its reason",
      "HTTP/1.1 200 O\u0001K\r\nContent-Length: 2\r\n\r\nok",
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 (200 \r\n.*ok|502 .*upstream-lost.*)$/s,
    ],
    [
      "with a control character in a header",
      "HTTP/1.1 200 OK\r\nX-Odd: a\u0001b\r\nContent-Length: 2\r\n\r\nok",
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 502 .*upstream-lost/s,
    ],
    [
      "with two lengths",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 502 .*upstream-lost/s,
    ],
    [
      "that accepts an upgrade which no client asked for",
      "HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
      "GET / HTTP/1.1",
      /^HTTP\/1\.1 502 /,
    ],
    ["that is not HTTP", "hello\r\n\r\n", "GET / HTTP/1.1", /^HTTP\/1\.1 502 .*upstream-lost/s],
  ])("%s does not end the process", async (_, answer, line, wanted) => {
    const service = await bareService(answer);
    const { port } = await gatewayBefore(service.port);
    expect(await raw(port, `${line}\r\n${CLOSE}\r\n`)).toMatch(wanted);
  });

  test("that is not valid HTTP leaves the outcome of its key unknown", async () => {
    const service = await bareService("HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok");
    const { send } = await gatewayBefore(service.port);
    expect((await send({ key: "k" })).code()).toBe("upstream-lost");
    expect((await send({ key: "k" })).code()).toMatch(/upstream-lost|unknown/);
    expect((await send({ key: "k", body: "{}" })).code()).toBe("conflict");
  });

  test("with non-ASCII header bytes is replayed with the same bytes", async () => {
    const lines =
      'Content-Length: 2\r\nContent-Type: text/plain; x="\u00e9"\r\nContent-Disposition: x; filename="\u00ff\u0080"\r\n';
    const service = await bareService(Buffer.from(`HTTP/1.1 200 OK\r\n${lines}\r\nok`, "latin1"));
    const { port } = await gatewayBefore(service.port);
    const ask = () =>
      raw(port, `POST /x HTTP/1.1\r\n${CLOSE}Idempotency-Key: k\r\nContent-Length: 0\r\n\r\n`);
    const [first, again] = [await ask(), await ask()];
    for (const said of [first, again]) {
      expect(said.toLowerCase()).toContain('content-disposition: x; filename="\u00ff\u0080"');
      expect(said.toLowerCase()).toContain('content-type: text/plain; x="\u00e9"');
    }
    expect(again).toMatch(new RegExp(`${REPLAYED}: true`, "i"));
  });
});

describe("two readings of one request", () => {
  test.each([
    [
      "two Hosts",
      "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
      400,
    ],
    ["a Host with a user", "GET / HTTP/1.1\r\nHost: localhost:80@evil.com\r\nConnection: close\r\n\r\n", 400],
    [
      "a Host with a name after its address",
      "GET / HTTP/1.1\r\nHost: [::1].evil.com\r\nConnection: close\r\n\r\n",
      400,
    ],
    ["an address of another host", `GET http://evil.example/ HTTP/1.1\r\n${CLOSE}\r\n`, 400],
    [
      "a length and chunks",
      `POST / HTTP/1.1\r\n${CLOSE}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    ["two lengths", `POST / HTTP/1.1\r\n${CLOSE}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`, 400],
    ["another coding", `POST / HTTP/1.1\r\n${CLOSE}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 400],
    ["chunks in HTTP/1.0", `POST / HTTP/1.0\r\n${CLOSE}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
    ["a fragment", `GET /a#b HTTP/1.1\r\n${CLOSE}\r\n`, 400],
    ["a tunnel to another host", "CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 501],
    ["too many header lines", `GET / HTTP/1.1\r\n${CLOSE}${"a: 1\r\n".repeat(300)}\r\n`, 400],
  ])("is refused: %s", async (_, text, status) => {
    const { asked, port } = await countingService();
    const { port: at } = await gatewayBefore(port);
    const said = await raw(at, text);
    expect(said).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(said.slice(said.indexOf("{")))).toHaveProperty("code");
    expect(asked).toEqual([]);
  });

  const routes = [
    { path: "/payments", methods: ["POST"], required: true, scope: "anyone", onUpstreamLost: "unknown" },
  ] as const;

  test("all spellings of a path have one key", async () => {
    const { asked, port } = await countingService();
    const { send } = await gatewayBefore(port, { routes });
    for (const path of ["/payments", "/payments/", "/Payments", "/%70ayments", "/PAYMENTS/"])
      expect((await send({ path, key: "k" })).text).toBe("run 1");
    expect(asked).toHaveLength(1);
  });

  test.each([
    "/p%61yments/%ff",
    "/%ff/../p%61yments",
    "/payments;x=1",
    "//payments",
    "/./payments",
    "/payments%2f",
  ])("%s does not bypass a rule that requires a key", async (path) => {
    const { asked, port } = await countingService();
    const { send } = await gatewayBefore(port, { routes });
    expect((await send({ path })).status).toBe(400);
    expect(asked).toEqual([]);
  });
});

test("headers that only a proxy may send, and headers with underscores, are removed", async () => {
  const port = await serviceOn((req, res) => res.end(req.rawHeaders.join("\n")));
  const { port: at } = await gatewayBefore(port, { gatewayScope: { header: "X-Tenant" } });
  const names = [
    ...["Prefix", "Server", "Ssl", "Scheme", "User", "Client-Cert", "Path", "Uri", "Method", "Port"].map(
      (name) => `X-Forwarded-${name}`,
    ),
    ...["X-Original-Url", "X-Original-Method", "X-Rewrite-Url", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip"],
    ...[
      "X-Http-Method-Override",
      "X-Http-Method",
      "X-Method-Override",
      "X-Scheme",
      "X-Client-Cert",
      "X-Ssl-Client-Verify",
    ],
    ...[
      "Ssl-Client-Cert",
      "Front-End-Https",
      "Remote-User",
      "X_Tenant",
      "X_Forwarded_For",
      "Idempotency_Key",
    ],
  ];
  const lines = names.map((name) => `${name}: evil\r\n`).join("");
  const said = await raw(at, `GET / HTTP/1.1\r\n${CLOSE}${lines}X-Mine: 1\r\nX-Tenant: t\r\n\r\n`);
  expect(said).toContain("X-Mine\n1");
  expect(said).toContain("X-Tenant\nt");
  expect(said).not.toContain("evil");
});

describe("on one connection", () => {
  test("an upgrade after another request does not lose the response to that request", async () => {
    const { service, port } = await countingService();
    const sockets = new WebSocketServer({ server: service });
    onTestFinished(() => sockets.close());
    const { port: at } = await gatewayBefore(port);
    const upgrade =
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    const socket = connect(at, "127.0.0.1", () =>
      socket.write(
        `GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HTTP/1.1\r\nHost: localhost\r\n${upgrade}`,
      ),
    );
    let said = "";
    socket.on("data", (chunk) => {
      said += chunk;
    });
    await expect.poll(() => said).toMatch(/^HTTP\/1\.1 200 OK.*run 1HTTP\/1\.1 101 /s);
    socket.destroy();
  });

  test("100 Continue is never written into the response to another request", async () => {
    const { port } = await countingService();
    const { port: at } = await gatewayBefore(port);
    const first = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const second = `PUT /b HTTP/1.1\r\n${CLOSE}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok`;
    const said = await raw(at, first + second);
    expect(said.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 200"]);
    expect(said).toMatch(/run 1HTTP\/1\.1 200 .*\r\n\r\n(5\r\n)?run 2/s);
  });

  test("requests for other protocols are answered in order and leave no listeners", async () => {
    const { asked, port } = await countingService();
    const { port: at, gateway } = await gatewayBefore(port);
    let accepted: Socket | undefined;
    gateway.server.on("connection", (socket: Socket) => {
      accepted = socket;
    });
    const wish =
      "Host: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    const socket = connect(at, "127.0.0.1");
    let said = "";
    socket.on("data", (chunk) => {
      said += chunk;
    });
    const ask = async (count: number) => {
      socket.write(`POST /x HTTP/1.1\r\n${wish}Content-Length: 3\r\n\r\nabc`);
      await expect.poll(() => said.match(/run \d+/g)?.length).toBe(count);
    };
    await ask(1);
    await ask(2);
    const before = accepted?.eventNames().map((name) => accepted?.listenerCount(name));
    for (let count = 3; count <= 14; count++) await ask(count);
    expect(accepted?.eventNames().map((name) => accepted?.listenerCount(name))).toEqual(before);
    expect(asked).toHaveLength(14);
    socket.destroy();
  });
});

test("a service that closes idle connections leaves no unknown outcomes", async () => {
  let runs = 0;
  const server = createNetServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      if (!chunk.toString().includes("\r\n\r\n")) return;
      runs++;
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
      // It says nothing of it, and closes at some time or other.
      setTimeout(() => socket.end(), runs % 4);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { send } = await gatewayBefore((server.address() as AddressInfo).port);
  const codes: number[] = [];
  for (let i = 0; i < 200; i++) codes.push((await send({ key: `k${i}`, body: "{}" })).status);
  expect(codes.filter((status) => status !== 200)).toEqual([]);
  expect(runs).toBe(200);
});
