/** Tests that header values beyond ASCII pass through the gateway with unchanged bytes, in both directions. */
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { REPLAYED_HEADER } from "../../nevertwice/test/http/replayed-header.ts";
import { gatewayBefore, raw, serviceOn } from "./gateway/stage.ts";

const DISPOSITION = 'attachment; filename="na\u00efve.txt"';
const OWNER = "Zo\u00eb \u00c3\u00af \u0080\u00ff";
/** Node encodes Content-Disposition differently after a Content-Length line. */
const LINES = `Content-Length: 2\r\nContent-Disposition: ${DISPOSITION}\r\nContent-Description: ${OWNER}\r\n`;

const valueIn = (said: string, name: string) => new RegExp(`^${name}: (.*)\r$`, "im").exec(said)?.[1];
const valuesIn = (said: string) => [
  valueIn(said, "Content-Disposition"),
  valueIn(said, "Content-Description"),
];

function requestText(lines: readonly string[]): string {
  const head = ["POST /orders HTTP/1.1", "Host: localhost", "Connection: close", ...lines];
  return `${head.join("\r\n")}\r\n\r\n`;
}

/** A service that writes raw responses, since node's server would change them. */
const writing = (write: (req: IncomingMessage) => void) => serviceOn((req) => write(req));

describe("an answer", () => {
  test.each([
    ["whose body comes with it", (req: IncomingMessage) => req.socket.end(answer("ok"), "latin1")],
    [
      "whose head comes alone",
      (req: IncomingMessage) => {
        req.socket.write(answer(""), "latin1");
        heads.push(() => req.socket.end("ok"));
      },
    ],
  ])("%s, to a request without a key", async (_, write) => {
    const { port } = await gatewayBefore(await writing(write));
    const socket = connect(port, "127.0.0.1", () => socket.write(requestText(["Content-Length: 0"])));
    let said = "";
    for await (const chunk of socket.setEncoding("latin1")) {
      said += chunk;
      if (said.includes("\r\n\r\n")) for (const finish of heads.splice(0)) finish();
    }
    expect(valuesIn(said)).toEqual([DISPOSITION, OWNER]);
    expect(said.endsWith("ok")).toBe(true);
  });

  test("to a request with a key, and its replay", async () => {
    const { port } = await gatewayBefore(await writing((req) => req.socket.end(answer("ok"), "latin1")));
    const asked = requestText(["Content-Length: 0", "Idempotency-Key: k-1"]);
    const [first, again] = [await raw(port, asked), await raw(port, asked)];
    expect(valuesIn(first)).toEqual([DISPOSITION, OWNER]);
    expect(valuesIn(again)).toEqual([DISPOSITION, OWNER]);
    expect(valueIn(again, REPLAYED_HEADER)).toBe("true");
  });

  test("that is a stream of events with a length, to a request with a key", async () => {
    const events = answer("ok").replace("200 OK", "200 OK\r\nContent-Type: text/event-stream");
    for (const version of ["1.1", "1.0"]) {
      const { port } = await gatewayBefore(await writing((req) => req.socket.end(events, "latin1")));
      const asked = requestText(["Content-Length: 0", "Idempotency-Key: k-1"]).replace("1.1", version);
      expect(valuesIn(await raw(port, asked))).toEqual([DISPOSITION, OWNER]);
    }
  });

  const heads: (() => void)[] = [];
  const answer = (body: string) => `HTTP/1.1 200 OK\r\nConnection: close\r\n${LINES}\r\n${body}`;
});

test("a request reaches the service with the bytes that the client sent", async () => {
  const seen: unknown[] = [];
  const service = await serviceOn((req, res) => {
    seen.push(req.headers["content-disposition"], req.headers["content-description"]);
    res.end();
  });
  const { port } = await gatewayBefore(service);
  const socket = connect(port, "127.0.0.1", () => socket.write(Buffer.from(text, "latin1")));
  const text = `${requestText(LINES.trimEnd().split("\r\n"))}ok`;
  let said = "";
  for await (const chunk of socket.setEncoding("latin1")) said += chunk;
  expect(said).toMatch(/^HTTP\/1\.1 200 /);
  expect(seen).toEqual([DISPOSITION, OWNER]);
});
