/** Tests the gateway with TLS on both sides. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createPlain } from "node:http";
import { createServer } from "node:https";
import { connect as connectPlain } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { gatewayBefore, read, serviceOn } from "./gateway/stage.ts";

const folder = mkdtempSync(join(tmpdir(), "nevertwice-tls-"));
const certificate = { tlsCert: join(folder, "cert.pem"), tlsKey: join(folder, "key.pem") };

beforeAll(() => {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  const made = ["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"];
  const names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
  execFileSync("openssl", ["req", "-x509", ...key, ...made, ...names], { cwd: folder, stdio: "pipe" });
});
afterAll(() => rmSync(folder, { recursive: true }));

async function ask(port: number, text: string): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => socket.write(text));
  let said = "";
  for await (const chunk of socket.setEncoding("latin1")) said += chunk;
  return said;
}

test("a request for another protocol is answered over TLS as an ordinary one", async () => {
  const service = await serviceOn(async (req, res) => res.end(`got ${await read(req)}`));
  const { port } = await gatewayBefore(service, certificate);
  const wish = "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
  const said = await ask(port, `POST /x HTTP/1.1\r\nHost: localhost\r\n${wish}Content-Length: 3\r\n\r\nabc`);
  expect(said).toMatch(/^HTTP\/1\.1 200 .*got abc/s);
});

test("a WebSocket goes through TLS", async () => {
  const service = createPlain();
  const sockets = new WebSocketServer({ server: service });
  onTestFinished(() => sockets.close());
  sockets.on("connection", (socket) => socket.on("message", (text) => socket.send(`heard ${text}`)));
  const { port } = await gatewayBefore(await serviceOn(service), certificate);
  const socket = new WebSocket(`wss://127.0.0.1:${port}/`, { rejectUnauthorized: false });
  await once(socket, "open");
  socket.send("you");
  expect(String((await once(socket, "message"))[0])).toBe("heard you");
  socket.terminate();
});

test("a client that does not finish its handshake is closed", async () => {
  const { port } = await gatewayBefore(await serviceOn((_req, res) => void res.end()), {
    ...certificate,
    headTimeout: 200,
  });
  const socket = connectPlain(port, "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "close");
});

test("a client that stalls in its headers is closed over TLS too", async () => {
  const { port } = await gatewayBefore(await serviceOn((_req, res) => void res.end()), {
    ...certificate,
    headTimeout: 200,
  });
  expect(await ask(port, "GET / HT")).toMatch(/^HTTP\/1\.1 408 /);
});

test("the service's certificate is checked for the service's name, whatever Host the client sent", async () => {
  const names: string[] = [];
  const SNICallback = (name: string, done: (error: null) => void) => {
    names.push(name);
    done(null);
  };
  const [cert, key] = [readFileSync(certificate.tlsCert), readFileSync(certificate.tlsKey)];
  let runs = 0;
  const service = createServer({ cert, key, SNICallback }, (_req, res) => {
    runs++;
    res.end("ok");
  });
  service.listen(0, "127.0.0.1");
  await once(service, "listening");
  onTestFinished(() => {
    service.close();
    service.closeAllConnections();
  });
  const { port } = service.address() as { port: number };
  const { send } = await gatewayBefore(port, {
    upstream: `https://localhost:${port}`,
    allowHost: ["evil.example"],
  });
  // The gateway does not know the signer of the certificate, and finds that out before it writes the request.
  const answer = await send({ method: "GET", headers: { Host: "evil.example" } });
  expect([answer.status, answer.code()]).toEqual([503, "upstream-unreachable"]);
  expect([...new Set(names)]).toEqual(["localhost"]);
  expect(runs).toBe(0);
});
