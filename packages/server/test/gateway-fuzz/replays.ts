/** Requests and responses that once caused a bug, each named after that bug. */
import { randomUUID } from "node:crypto";
import { lastRequest } from "./request-cases.ts";

const WEBSOCKET =
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

interface Replay {
  readonly name: string;
}

export interface RequestReplay extends Replay {
  readonly bytes: string;
}

/** The id ends with an even digit, so the service answers before it has read the body. */
function post(target: string, more = "", body = "{}"): string {
  return `POST ${target} HTTP/1.1\r\nHost: localhost\r\nX-Case: replay.2\r\nContent-Length: ${body.length}\r\nConnection: close\r\n${more}\r\n${body}`;
}

function get(more: string, body = ""): string {
  return `GET /free HTTP/1.1\r\nHost: localhost\r\nX-Case: replay.2\r\n${more}\r\n${body}`;
}

const INNER =
  "POST /payments?case=inner HTTP/1.1\r\nHost: localhost\r\nX-Case: inner\r\nContent-Length: 0\r\n\r\n";
const CHUNKED = "2\r\n{}\r\n0\r\n\r\n";

export const REQUEST_REPLAYS: readonly RequestReplay[] = [
  {
    name: "a WebSocket handshake with a Content-Length does not smuggle its body",
    bytes: get(`${WEBSOCKET}Content-Length: ${INNER.length}\r\n`, INNER),
  },
  {
    name: "a WebSocket handshake with chunks does not smuggle its body",
    bytes: get(
      `${WEBSOCKET}Transfer-Encoding: chunked\r\n`,
      `${INNER.length.toString(16)}\r\n${INNER}\r\n0\r\n\r\n`,
    ),
  },
  {
    name: "a WebSocket handshake with a Trailer field does not end the process",
    bytes: get(`${WEBSOCKET}Trailer: x\r\n`),
  },
  {
    name: "a WebSocket handshake after another request is not answered before it",
    bytes: `${post("/free").replace("Connection: close\r\n", "").replace("replay.2", "replay.slow")}${get(WEBSOCKET)}`,
  },
  ...[
    "/p%61yments/%ff",
    "/%ff/../p%61yments",
    "/payments;x=1",
    "/payments;",
    "/x/..;/payments",
    "/p%2561yments",
    "/%70%61%79%6d%65%6e%74%73%2f7",
    "/payments/%252e%252e/x",
    "/payments%5c7",
    "\\payments",
    "//payments",
    "/x/%2e%2e/PAYMENTS/",
    "http://localhost/payments",
    "/payments#/../x",
    "/%25ff%252f../payments",
  ].map((target) => ({ name: `${target} needs the key that /payments/* requires`, bytes: post(target) })),
  ...["gzip, chunked", "identity, chunked", "chunked, chunked", "chunked, identity", "identity"].map(
    (coding) => ({
      name: `Transfer-Encoding: ${coding} is refused`,
      bytes: `POST /free HTTP/1.1\r\nHost: localhost\r\nX-Case: replay.2\r\nTransfer-Encoding: ${coding}\r\n\r\n${CHUNKED}`,
    }),
  ),
  {
    name: "nothing is read after a request with an empty Transfer-Encoding",
    bytes: get("Transfer-Encoding:\r\n", lastRequest("behind")),
  },
  {
    name: "nothing is read after a request with a length and an empty Transfer-Encoding",
    bytes: get("Transfer-Encoding:\r\nContent-Length: 2\r\n", `{}${lastRequest("behind")}`),
  },
  ...["HTTP/0.9", "HTTP/2.0"].map((version) => ({
    name: `a request of ${version} is refused`,
    bytes: post("/free").replace("HTTP/1.1", version),
  })),
  { name: "a request line without a version is refused", bytes: post("/free").replace(" HTTP/1.1", "") },
  ...["Host: other", "Host: localhost"].map((line) => ({
    name: `a request with a second line, ${line}, is refused`,
    bytes: post("/free", `${line}\r\n`),
  })),
  {
    name: "a Host that is a list of names is refused",
    bytes: post("/free").replace("Host: localhost", "Host: localhost:80, other"),
  },
  ...["localhost:80@evil.example", "[::1].evil.example"].map((host) => ({
    name: `a Host of ${host} does not pass for this machine`,
    bytes: post("/free").replace("Host: localhost", `Host: ${host}`),
  })),
  {
    name: "100 Continue is not written into the answer to an earlier request",
    bytes: `${post("/free").replace("Connection: close\r\n", "").replace("replay.2", "replay.slow")}${post("/free", "Expect: 100-continue\r\n")}`,
  },
  ...["X_Forwarded_For", "x-forwarded_host", "X_Real_IP", "Nevertwice_Fence", "Forwarded"].map((name) => ({
    name: `a ${name} that a client forged does not reach the service`,
    bytes: post("/free", `${name}: forged\r\n`),
  })),
];

export interface ResponseReplay extends Replay {
  readonly method?: string;
  readonly version?: string;
  readonly isUpgrade?: boolean;
  readonly answer: string;
  readonly closes?: boolean;
}

const LENGTH_5 = "X-Answer: replay\r\nContent-Length: 5\r\n";
const withLine = (line: string) => `HTTP/1.1 200 OK\r\n${LENGTH_5}${line}\r\n\r\nhello`;
const CHUNKS =
  "X-Answer: replay\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n5\r\nhello\r\n0\r\nX-Late: 1\r\n\r\n";

export const RESPONSE_REPLAYS: readonly ResponseReplay[] = [
  ...['</a.css>; rel="preload stylesheet"', '</a>; rel=preload; x="a\\"b"', "none", ""].map((link) => ({
    name: `103 with Link: ${link} does not end the process`,
    answer: `HTTP/1.1 103 Early Hints\r\nLink: ${link}\r\n\r\n${withLine("X-Odd: 1")}`,
  })),
  {
    name: "a Content-Disposition in latin1 behind a Content-Length does not end the process",
    answer: withLine('Content-Disposition: attachment; filename="\xfcber.pdf"'),
  },
  {
    name: "a Trailer field beside a Content-Length does not end the process",
    answer: withLine("Trailer: X-Late"),
  },
  {
    name: "a Trailer field on a 204 does not end the process",
    answer: "HTTP/1.1 204 No Content\r\nX-Answer: replay\r\nTrailer: X-Late\r\n\r\n",
  },
  {
    name: "trailers for a client of HTTP/1.0 do not end the process",
    version: "1.0",
    answer: `HTTP/1.1 200 OK\r\n${CHUNKS}`,
  },
  {
    name: "a Trailer field in the answer to HEAD does not end the process",
    method: "HEAD",
    answer: "HTTP/1.1 200 OK\r\nX-Answer: replay\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n",
  },
  ...["099 Low", "000 None", "200 a\x01b", "200 a\0b", "200 a\x7fb", "999 High"].flatMap((status) =>
    [false, true].map((isUpgrade) => ({
      name: `the status ${JSON.stringify(status)} ${isUpgrade ? "to a handshake " : ""}does no harm`,
      isUpgrade,
      answer: `HTTP/1.1 ${status}\r\n${LENGTH_5}\r\nhello`,
    })),
  ),
  ...["200 OK", "204 No Content", "304 Not Modified"].map((status) => ({
    name: `an Expect field in an answer with ${status} does not make two answers of it`,
    method: "POST",
    answer: `HTTP/1.1 ${status}\r\nX-Answer: replay\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
  })),
  ...["200 OK", "204 No Content", "304 Not Modified"].map((status) => ({
    name: `latin1 in a header of an answer with ${status} stays as it is`,
    answer: `HTTP/1.1 ${status}\r\nX-Answer: replay\r\nX-Latin: \xfc\r\nContent-Length: 5\r\n\r\nhello`,
  })),
  {
    name: "latin1 in a header of a stream of events stays as it is",
    answer:
      "HTTP/1.1 200 OK\r\nX-Answer: replay\r\nX-Latin: \xfc\r\nContent-Type: text/event-stream\r\nContent-Length: 5\r\n\r\nhello",
  },
  {
    name: "101 to a request that asked for no upgrade does no harm",
    answer:
      "HTTP/1.1 101 Switching Protocols\r\nX-Answer: replay\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
  },
  {
    name: "a second answer to one request reaches no client",
    answer: withLine("X-Odd: 1") + withLine("X-Odd: 2").replace("replay", "second"),
  },
  {
    name: "half an answer does not pass for a whole one",
    answer: withLine("X-Odd: 1").slice(0, -2),
    closes: true,
  },
  {
    name: "chunks that were cut off do not pass for a whole answer",
    answer: "HTTP/1.1 200 OK\r\nX-Answer: replay\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    closes: true,
  },
];

/** The case in which the service gives this answer. */
export function answeringOf({
  method = "GET",
  version = "1.1",
  isUpgrade: asksUpgrade = false,
  answer,
  closes = false,
}: ResponseReplay) {
  const key = method === "POST" ? `Idempotency-Key: "${randomUUID()}"\r\nContent-Length: 0\r\n` : "";
  const path = method === "POST" ? "/payments" : "/free";
  const request = `${method} ${path}?case=replay HTTP/${version}\r\nHost: localhost\r\nX-Case: replay\r\n${key}${asksUpgrade ? WEBSOCKET : ""}\r\n`;
  const last = asksUpgrade || version === "1.0" ? "" : lastRequest("replay.last");
  return { id: "replay", method, version, request, asksUpgrade, last, pieces: [answer], closes };
}
