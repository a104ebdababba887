/** No body is read before its sender is authenticated: tested on every address of the server, on raw sockets. */
import { connect, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import type { NevertwiceServer } from "../src/server.ts";
import { startServer } from "./api-client.ts";

const TOKEN = "0123456789abcdef0123456789abcdef";
/** The longest body that the API accepts. */
const LONG = 1_400_000;
/** The head of the request, and what the server's socket had read before it was closed. */
const MOST_READ = 700_000;
const SIGN_IN = "POST /session";
/** Requests that the router refuses, unknown addresses, and methods that no route has. */
const STRANGE = [
  "GET /%zz",
  "POST /%zz",
  `GET /v1/resources/${"x".repeat(4_000)}`,
  "GET /nowhere",
  "POST /nowhere",
  "PUT /v1/holds",
  "PATCH /metrics",
  "OPTIONS /session",
  "DELETE /healthz",
  "POST /healthz",
  "POST /metrics",
  "POST /",
];

interface Listening {
  readonly server: NevertwiceServer;
  readonly port: number;
  /** The server's ends of its connections, in the order in which they were opened. */
  readonly sockets: readonly Socket[];
}

async function listening(): Promise<Listening> {
  const server = await startServer({ listen: { host: "127.0.0.1", port: 0 }, accessToken: TOKEN });
  const sockets: Socket[] = [];
  server.app.server.on("connection", (socket: Socket) => sockets.push(socket));
  const { url } = await server.listen();
  return { server, port: Number(new URL(url).port), sockets };
}

function addressesOf({ server }: Listening): readonly string[] {
  const concrete = server.addresses.map((address) => address.replace(/:\w+/g, "0".repeat(36)));
  return [...concrete, ...STRANGE].filter((address) => address !== SIGN_IN);
}

interface Heard {
  readonly status: number;
  readonly text: string;
  readonly bytesRead: number;
}

/** Sends the head, then as much of the body as the connection accepts, and reads until the server closes. */
async function flooded({ port, sockets }: Listening, address: string, framing: string): Promise<Heard> {
  const before = sockets.length;
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  let text = "";
  socket.setEncoding("latin1").on("data", (chunk) => {
    text += chunk;
  });
  // A connection that is closed while we write is what we are here for.
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.write(
    `${address} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`,
  );
  const isChunked = framing.startsWith("Transfer");
  const piece = "x".repeat(50_000);
  for (let sent = 0; sent < LONG && !socket.destroyed; sent += piece.length) {
    const isTaken = socket.write(isChunked ? `${piece.length.toString(16)}\r\n${piece}\r\n` : piece);
    if (!isTaken) await Promise.race([closed, new Promise((resolve) => socket.once("drain", resolve))]);
  }
  await closed;
  const status = Number(/^HTTP\/1.1 (\d+)/.exec(text)?.[1]);
  return { status, text, bytesRead: sockets[before]?.bytesRead ?? Number.NaN };
}

describe("the body of a caller without access", () => {
  test.each([`Content-Length: ${LONG}`, "Transfer-Encoding: chunked"])(
    "is read at no address, and its connection is closed: %s",
    async (framing) => {
      const at = await listening();
      const addresses = addressesOf(at);
      expect(addresses.length).toBeGreaterThan(60);
      for (const address of addresses) {
        const { status, bytesRead, text } = await flooded(at, address, framing);
        expect(bytesRead, `${address} ${text.slice(0, 200)}`).toBeLessThan(MOST_READ);
        // The server neither checked the length of the body nor waited for it.
        expect([413, 408], address).not.toContain(status);
      }
    },
  );

  test("of a sign-in is refused once it is longer than a token", async () => {
    const at = await listening();
    for (const framing of [`Content-Length: ${LONG}`, "Transfer-Encoding: chunked"]) {
      const { bytesRead } = await flooded(at, SIGN_IN, framing);
      expect(bytesRead).toBeLessThan(MOST_READ);
    }
    const long = await at.server.app.inject({
      method: "POST",
      url: "/session",
      payload: { token: "x".repeat(5_000) },
    });
    expect([long.statusCode, long.json().code]).toEqual([413, "body-too-large"]);
    expect(long.json().detail).toContain("4096 bytes");
  });

  test("with Expect: 100-continue is never asked for", async () => {
    const at = await listening();
    for (const address of [...addressesOf(at), SIGN_IN].filter((one) => !one.startsWith("HEAD"))) {
      const answer = await asked(at, address, ["Expect: 100-continue", `Content-Length: ${LONG}`]);
      expect(answer, address).toMatch(/^HTTP\/1.1 [2345]/);
    }
  });
});

/** The first line of the response to a request whose body is not sent. */
async function asked({ port }: Listening, address: string, lines: readonly string[]): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const answer = new Promise<string>((resolve, reject) => {
    socket.setEncoding("latin1").once("data", (chunk) => resolve(String(chunk)));
    socket.once("close", () => reject(new Error(`${address} was not answered`)));
  });
  socket.write([`${address} HTTP/1.1`, "Host: localhost", ...lines, "", ""].join("\r\n"));
  const text = await answer;
  socket.destroy();
  return text;
}

describe("the body of an authorized caller", () => {
  const CLAIM = JSON.stringify({ operation: "charge", key: "k" });
  const HEAD = [
    `Authorization: Bearer ${TOKEN}`,
    "Content-Type: application/json",
    `Content-Length: ${CLAIM.length}`,
  ];

  test("with Expect: 100-continue is asked for and read", async () => {
    const { port } = await listening();
    const socket = connect(port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    let text = "";
    const told = (wanted: string) =>
      new Promise<void>((resolve) => {
        socket.on("data", () => {
          if (text.includes(wanted)) resolve();
        });
      });
    socket.setEncoding("latin1").on("data", (chunk) => {
      text += chunk;
    });
    const lines = ["POST /v1/claims HTTP/1.1", "Host: localhost", ...HEAD, "Expect: 100-continue"];
    const [continued, answered] = [told("100 Continue"), told('"fence"')];
    socket.write([...lines, "", ""].join("\r\n"));
    await continued;
    socket.write(CLAIM);
    await answered;
    expect(text).toMatch(/HTTP\/1.1 201 /);
  });

  test("keeps its connection if a short body was not needed", async () => {
    const at = await listening();
    const answer = await asked(at, "GET /healthz", ["Content-Length: 10"]);
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    expect(answer).not.toMatch(/connection: close/i);
  });
});
