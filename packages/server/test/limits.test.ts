/** Tests that every part of a request has a limit, and the API answers a request beyond it with its own problem. */
import { connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { startServer } from "./api-client.ts";
import { sceneOf } from "./calling.ts";

/** Nested arrays. */
function nested(levels: number): string {
  return `${"[".repeat(levels)}${"]".repeat(levels)}`;
}

describe("JSON", () => {
  test("with more than 300 levels is refused before it is parsed, in any member", async () => {
    const { call } = await sceneOf();
    for (const member of ["fingerprint", "key", "no-such-member"])
      for (const levels of [300, 1_000, 500_000]) {
        const body = `{"operation": "charge", "key": "k", "${member}": ${nested(levels)}}`;
        const { status, body: problem } = await call("POST /v1/claims", { body });
        expect([status, problem.code], `${member} ${levels}`).toEqual([400, "request-invalid"]);
        expect(problem.detail).toContain("300 levels");
      }
  });

  test("with 256 levels is returned as the value of a claim, and deeper values are refused", async () => {
    const { call } = await sceneOf();
    const claim = { body: { operation: "charge", key: "k" } };
    const { id, token } = (await call("POST /v1/claims", claim)).body;
    const complete = (levels: number) =>
      call(`POST /v1/claims/${id}/complete`, { body: `{"token": "${token}", "value": ${nested(levels)}}` });
    expect((await complete(200_000)).status).toBe(400);
    expect((await complete(256)).status).toBe(200);
    const again = await call("POST /v1/claims", claim);
    expect(JSON.stringify(again.body.outcome.value)).toBe(nested(256));
  });

  test("does not count brackets inside strings", async () => {
    const { call } = await sceneOf();
    const key = `${"[".repeat(300)}\\"{{{\\\\`;
    expect((await call("POST /v1/claims", { body: `{"operation": "o", "key": "${key}"}` })).status).toBe(201);
  });
});

describe("the head of a request", () => {
  test("has at most 100 headers", async () => {
    const { call } = await sceneOf();
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`x-header-${index}`, "1"]));
    expect((await call("GET /healthz", { headers: many(90) })).status).toBe(200);
    const { status, body } = await call("GET /healthz", { headers: many(101) });
    expect([status, body.code]).toEqual([400, "request-invalid"]);
  });

  test("has an address of at most 16 KiB, and only known parameters", async () => {
    const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
    const { url } = await server.listen();
    const status = async (query: string) => (await fetch(`${url}/v1/keys?${query}`)).status;
    expect(await status(`search=${"x".repeat(200)}`)).toBe(200);
    expect(await status(`search=${"x".repeat(201)}`)).toBe(400);
    expect(await status(Array.from({ length: 3_000 }, (_, index) => `p${index}`).join("&"))).toBe(431);
    expect(await status(Array.from({ length: 2_000 }, (_, index) => `p${index}`).join("&"))).toBe(400);
    expect(await status(Array.from({ length: 1_000 }, () => "limit=1").join("&"))).toBe(400);
  });
});

describe("connections", () => {
  test("have timeouts for headers and whole requests, and their number is limited to 4,000", async () => {
    const { app } = await startServer();
    const { requestTimeout, headersTimeout, keepAliveTimeout, maxConnections } = app.server;
    expect({ requestTimeout, headersTimeout, keepAliveTimeout, maxConnections }).toEqual({
      requestTimeout: 30_000,
      headersTimeout: 10_000,
      keepAliveTimeout: 72_000,
      maxConnections: 4_000,
    });
  });

  test("that are still open when the server stops are closed after --drain", async () => {
    const server = await startServer({ listen: { host: "127.0.0.1", port: 0 }, drain: 50 });
    const { url } = await server.listen();
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    const asked = new Promise<string>((resolve) => socket.once("data", (chunk) => resolve(String(chunk))));
    const head = ["POST /v1/claims HTTP/1.1", "Host: localhost", "Content-Type: application/json"];
    socket.write([...head, "Content-Length: 10", "Expect: 100-continue", "", ""].join("\r\n"));
    expect(await asked).toContain("100 Continue");
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    // The body never comes. The request would be given up after 30 seconds.
    await Promise.all([server.close(), closed]);
  });

  test("beyond the limit are closed at once, until another one ends", async () => {
    const server = await startServer({ listen: { host: "127.0.0.1", port: 0 } });
    server.app.server.maxConnections = 2;
    const { url } = await server.listen();
    const open = () => {
      const socket = connect(Number(new URL(url).port), "127.0.0.1");
      onTestFinished(() => void socket.destroy());
      return socket;
    };
    const told = (socket: ReturnType<typeof open>) =>
      new Promise<string>((resolve) => {
        socket.once("data", (chunk) => resolve(String(chunk)));
        socket.once("close", () => resolve("closed"));
        socket.on("error", () => resolve("closed"));
        socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      });
    const [one, two] = [open(), open()];
    expect(await told(one)).toContain("200 OK");
    expect(await told(two)).toContain("200 OK");
    expect(await told(open())).toBe("closed");
    one.destroy();
    await expect.poll(async () => told(open())).toContain("200 OK");
  });
});
