/** Tests that every resource that a client or a service can occupy has a limit, and others are served meanwhile. */
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { clientNetwork } from "../src/client-network.ts";
import { connectionLimit } from "../src/connection-limit.ts";
import { createConnectionReuse } from "../src/gateway/connection-reuse.ts";
import { gate, gatewayBefore, raw, read, serviceOn } from "./gateway/stage.ts";

/** A connection from an address of this machine, and all bytes that it received until it was closed. */
async function hanging(
  port: number,
  text: string | Buffer,
  from = "127.0.0.1",
): Promise<{ said: Promise<string>; socket: Socket }> {
  const socket = connect({ port, host: "127.0.0.1", localAddress: from });
  onTestFinished(() => void socket.destroy());
  let said = "";
  socket.on("error", () => {});
  socket.on("data", (chunk) => {
    said += chunk.toString("latin1");
  });
  const closed = new Promise<string>((resolve) => void socket.once("close", () => resolve(said)));
  await Promise.race([once(socket, "connect").catch(() => {}), closed]);
  socket.write(text);
  return { said: closed, socket };
}

/** Ignores clients that disconnect in the middle of a request. */
const echo = () =>
  serviceOn((req, res) =>
    read(req).then(
      (text) => void res.end(text),
      () => {},
    ),
  );

describe("a client that stalls", () => {
  test.each([
    ["before its first byte", ""],
    ["in its head", "POST / HTTP/1.1\r\nHost: localhost\r\nX-A"],
  ])("%s gets 408 and is closed", async (_, text) => {
    const { port } = await gatewayBefore(await echo(), { headTimeout: 200 });
    const { said } = await hanging(port, text);
    expect(await said).toMatch(/^HTTP\/1\.1 408 .*"request-timeout"/s);
  });

  test("in its second request, after an upgrade that was ignored, gets 408 and is closed", async () => {
    const { port } = await gatewayBefore(await echo(), { headTimeout: 2_000, bodyTimeout: 60_000 });
    const wish =
      "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nab";
    const { said, socket } = await hanging(port, `${wish}GET / HTTP/1.1\r\nX-A: `);
    const dripping = setInterval(() => void socket.write("b"), 20);
    onTestFinished(() => clearInterval(dripping));
    expect(await said).toMatch(/^HTTP\/1\.1 200 .*abHTTP\/1\.1 408 /s);
  });

  test.each([
    ["that is read for its fingerprint", "Idempotency-Key: k\r\n"],
    ["that is forwarded while it arrives", ""],
  ])("in a body %s gets 408 and is closed, and its key is free", async (_, key) => {
    const { port, send } = await gatewayBefore(await echo(), { bodyTimeout: 200 });
    const { said } = await hanging(
      port,
      `POST /orders HTTP/1.1\r\nHost: localhost\r\n${key}Content-Length: 12\r\n\r\n{"am`,
    );
    expect(await said).toMatch(/^HTTP\/1\.1 408 .*"request-timeout"/s);
    expect((await send({ key: "k" })).status).toBe(200);
  });

  test("while it reads its response is closed", async () => {
    const closed = gate();
    const port = await serviceOn((_req, res) => {
      res.once("close", () => closed.resolve());
      res.write(Buffer.alloc(8_000_000));
    });
    const { port: at } = await gatewayBefore(port, { bodyTimeout: 300, upstreamTimeout: 60_000 });
    const { socket } = await hanging(at, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    socket.pause();
    await closed.promise;
  });

  test("is not one that waits for the service", async () => {
    const open = gate();
    const port = await serviceOn(async (_req, res) => {
      await open.promise;
      res.end("late");
    });
    const { send } = await gatewayBefore(port, { bodyTimeout: 100 });
    const answers = Promise.all([send({ key: "k" }), send({ method: "GET" })]);
    await new Promise((resolve) => setTimeout(resolve, 500));
    open.resolve();
    expect((await answers).map(({ text }) => text)).toEqual(["late", "late"]);
  });

  test("is not one whose upload the service does not read", async () => {
    const open = gate();
    const port = await serviceOn(async (req, res) => {
      await open.promise;
      res.end(String((await read(req)).length));
    });
    const { send } = await gatewayBefore(port, { bodyTimeout: 800, upstreamTimeout: 60_000 });
    const answer = send({ method: "PUT", body: Buffer.alloc(8_000_000) });
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    open.resolve();
    expect((await answer).text).toBe("8000000");
  });
});

describe("a service that stalls", () => {
  test.each([
    ["before its response", ""],
    ["in the headers of its response", "HTTP/1.1 200 OK\r\nContent-"],
    ["in the body of its response", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"],
  ])("%s gives upstream-lost, and the outcome of its key is unknown", async (_, text) => {
    const server = createNetServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => void socket.write(text));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const { send } = await gatewayBefore((server.address() as AddressInfo).port, {
      upstreamTimeout: 300,
      routes: [
        {
          path: "/*",
          methods: ["POST"],
          required: false,
          scope: "anyone",
          onLapsed: "hold",
          onUpstreamLost: "unknown",
        },
      ],
    });
    expect((await send({ key: "k" })).code()).toBe("upstream-lost");
    expect((await send({ key: "k" })).code()).toBe("unknown");
  });
});

describe("connections", () => {
  test("beyond the limit of one address are closed, and other addresses are served", async () => {
    const { port } = await gatewayBefore(await echo(), { maxConnectionsPerAddress: 3 });
    const held = await Promise.all([1, 2, 3].map(() => hanging(port, "", "127.0.0.2")));
    const { said } = await hanging(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "127.0.0.2");
    expect(await said).toBe("");
    expect(await raw(port, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).toMatch(
      / 200 /,
    );
    for (const { socket } of held) socket.destroy();
    await Promise.all(held.map(({ said: ended }) => ended));
    const ask = async () => {
      const text = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
      return (await hanging(port, text, "127.0.0.2")).said;
    };
    await expect.poll(ask).toMatch(/ 200 /);
  });

  test("of a trusted proxy are not limited by address", async () => {
    const { port } = await gatewayBefore(await echo(), {
      maxConnectionsPerAddress: 1,
      trustProxy: ["127.0.0.2"],
    });
    await Promise.all([1, 2, 3].map(() => hanging(port, "", "127.0.0.2")));
    const { said } = await hanging(
      port,
      "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
      "127.0.0.2",
    );
    expect(await said).toMatch(/ 200 /);
  });

  test("beyond the total limit are closed", async () => {
    const { port } = await gatewayBefore(await echo(), { maxConnections: 16 });
    await Promise.all(
      Array.from({ length: 16 }, (_, index) => hanging(port, "", `127.0.0.${2 + (index % 4)}`)),
    );
    const { said } = await hanging(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(await said).toBe("");
  });

  test("leave room for the API if the process may open few files", () => {
    expect(connectionLimit(2_000, 1_024)).toBe(256);
    expect(connectionLimit(100, 1_024)).toBe(100);
    expect(connectionLimit(2_000, Number.POSITIVE_INFINITY)).toBe(2_000);
    expect(connectionLimit(2_000, 20)).toBe(16);
  });

  test.each([
    ["127.0.0.1", "127.0.0.1"],
    ["::ffff:10.1.2.3", "10.1.2.3"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8::6", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["fe80::1:2:3:4", "fe80:0:0:0::/64"],
  ])("from %s count for %s", (remoteAddress, network) => {
    expect(clientNetwork(remoteAddress)).toBe(network);
  });

  test("that are idle are closed after the configured time", async () => {
    const { port } = await gatewayBefore(await echo(), { clientKeepAlive: 300 });
    const { said } = await hanging(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(await said).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("bytes held in memory", () => {
  const half = Buffer.alloc(60_000, 32);
  const head = (length: number) =>
    `POST /orders HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k${Math.random()}\r\nContent-Length: ${length}\r\n\r\n`;

  test("of unfinished requests leave room for other addresses", async () => {
    const { port, send } = await gatewayBefore(await echo(), {
      maxBufferedBytes: 400_000,
      bodyTimeout: 60_000,
    });
    const stalled = await Promise.all(
      [1, 2, 3].map(() => hanging(port, Buffer.concat([Buffer.from(head(100_000)), half]), "127.0.0.2")),
    );
    const refused = await Promise.race(stalled.map(({ said }) => said));
    expect(refused).toMatch(/^HTTP\/1\.1 503 .*"unavailable"/s);
    expect((await send({ key: "mine", body: half })).status).toBe(200);
  });

  test("of a trusted proxy may use all room", async () => {
    const { send } = await gatewayBefore(await echo(), {
      maxBufferedBytes: 100_000,
      trustProxy: ["127.0.0.1"],
    });
    expect((await send({ key: "k", body: half })).status).toBe(200);
  });

  test("are free again when the request ends", async () => {
    const { send } = await gatewayBefore(await echo(), { maxBufferedBytes: 400_000 });
    for (let i = 0; i < 20; i++) expect((await send({ key: `k${i}`, body: half })).status).toBe(200);
  });

  test("of responses without room are forwarded and not stored", async () => {
    const open = gate();
    let runs = 0;
    const port = await serviceOn(async (_req, res) => {
      runs++;
      res.writeHead(201, { "Content-Length": 120_000 }).write(Buffer.alloc(60_000));
      await open.promise;
      res.end(Buffer.alloc(60_000));
    });
    const { send } = await gatewayBefore(port, { maxBufferedBytes: 65_536 });
    const first = [send({ key: "a" }), send({ key: "b" })];
    await expect.poll(() => runs).toBe(2);
    await new Promise((resolve) => setTimeout(resolve, 50));
    open.resolve();
    for (const answer of await Promise.all(first))
      expect([answer.status, answer.text.length]).toEqual([201, 120_000]);
    const again = await Promise.all([send({ key: "a" }), send({ key: "b" })]);
    expect(again.map(({ status }) => status).filter((status) => status !== 201)).toContain(409);
    for (const answer of again) if (answer.status !== 201) expect(answer.code()).toBe("already-done");
    expect(runs).toBe(2);
  });
});

test("a connection whose requests are refused before their bodies arrive collects nothing", async () => {
  const { port, gateway } = await gatewayBefore(await echo(), { gatewayScope: { header: "x-tenant" } });
  const accepted = once(gateway.server, "connection") as Promise<[Socket]>;
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const head = "POST /orders HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n";
  const [{ listenerCount }, served] = await accepted.then(([one]) => [one, one] as const);
  const refuse = async (): Promise<number> => {
    socket.write(head);
    expect(String((await once(socket, "data"))[0])).toContain("401");
    socket.write("{}");
    return listenerCount.call(served, "close");
  };
  const first = await refuse();
  for (let i = 0; i < 12; i++) expect(await refuse()).toBeLessThanOrEqual(first);
});

test("a client that still sends after a refusal is disconnected", async () => {
  const { port } = await gatewayBefore(await echo(), {
    routes: [{ path: "/*", methods: ["POST"], required: true, scope: "anyone", onUpstreamLost: "unknown" }],
  });
  const { said, socket } = await hanging(
    port,
    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n",
  );
  const sending = setInterval(() => void socket.write(Buffer.alloc(1_000)), 50);
  onTestFinished(() => clearInterval(sending));
  expect(await said).toMatch(/^HTTP\/1\.1 400 .*"key-missing"/s);
});

describe("a connection that was used before", () => {
  function trial() {
    let now = 0;
    const pass = (ms: number): void => {
      now += ms;
    };
    return { reuse: createConnectionReuse(() => now), pass };
  }

  test("is used for keys once the service has left one open for a second", () => {
    const { reuse, pass } = trial();
    expect(reuse.isTrusted()).toBe(false);
    reuse.noteIdle();
    pass(999);
    expect(reuse.isTrusted()).toBe(false);
    pass(1);
    expect(reuse.isTrusted()).toBe(true);
  });

  test("is not used for keys for a minute after the service closed one, and then is tried again", () => {
    const { reuse, pass } = trial();
    reuse.noteIdle();
    pass(5_000);
    reuse.noteClosed();
    reuse.noteIdle();
    pass(59_999);
    expect(reuse.isTrusted()).toBe(false);
    reuse.noteIdle();
    pass(1);
    reuse.noteIdle();
    expect(reuse.isTrusted()).toBe(false);
    pass(1_000);
    expect(reuse.isTrusted()).toBe(true);
  });

  test("is reused if the service allows it", async () => {
    let connections = 0;
    const service = createServer(async (req, res) => res.end(await read(req)));
    service.on("connection", () => connections++);
    const { send } = await gatewayBefore(await serviceOn(service));
    await send({ key: "first" });
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    for (let i = 0; i < 10; i++) await send({ key: `k${i}` });
    expect(connections).toBe(1);
  });
});
