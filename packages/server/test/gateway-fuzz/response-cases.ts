/** Answers of a service, legal and illegal, each to a legal request that one more request follows on the connection. */
import { type Random, randomFor } from "./random.ts";
import { readResponses } from "./reading.ts";
import { inPieces, lastRequest, NOISE_EVERY, noise } from "./request-cases.ts";

export interface Answering {
  readonly index: number;
  /** The id of the case, and the method of its request. */
  readonly id: string;
  readonly method: string;
  readonly version: string;
  readonly request: string;
  readonly asksUpgrade: boolean;
  /** The next request on the connection. Empty if the connection ends with its first answer, or may change its protocol. */
  readonly last: string;
  /** The service writes them one after the other. */
  readonly pieces: readonly string[];
  /** Whether it then closes the connection. */
  readonly closes: boolean;
}

const REQUESTS = [
  ["GET", "/free"],
  ["GET", "/free"],
  ["HEAD", "/free"],
  ["OPTIONS", "/free"],
  ["POST", "/free"],
  ["POST", "/payments"],
  ["POST", "/payments"],
  ["POST", "/api/x"],
] as const;

const STATUSES = [
  "200 OK",
  "200 OK",
  "200 OK",
  "201 Created",
  "204 No Content",
  "304 Not Modified",
  "404 Not Found",
  "500 Oh",
];
const ODD_STATUSES = [
  "099 Low",
  "000",
  "99 Short",
  "2000 Long",
  "1e2 X",
  "+200 X",
  "199 X",
  "205 Reset Content",
  "206 Part",
  "299 X",
  "599 X",
  "600 X",
  "999 X",
  "200",
  "200 ",
  "200  two",
  "200 a\x01b",
  "200 a\x00b",
  "200 a\x7fb",
  "200 \xfcber",
  "200 a\rb",
  "200\tOK",
  "101 Switching Protocols",
  "100 Continue",
  "102 Processing",
  "103 Early Hints",
  "426 Upgrade Required",
  "401 X",
  "407 X",
  "503 X",
  `200 ${"r".repeat(20_000)}`,
];
const VERSIONS = ["HTTP/1.0", "HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "http/1.1", "ICY", "HTTP/1.1\t"];

const INTERIMS = [
  "100 Continue",
  "102 Processing",
  "101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade",
  "104 Upload",
  "199 X",
  "099 X",
  ...[
    '</a.css>; rel="preload stylesheet"',
    "</a.css>; rel=preload; as=style, </b.js>; rel=preload",
    "</a,b>; rel=x",
    "<>; rel",
    "none",
    "",
    "\xfc",
    '</a>; rel=preload; x="a\\"b"',
    "<a>,<b>",
    "</a>; rel=a\r\nLink: </b>; rel=b",
  ].map((link) => `103 Early Hints\r\nLink: ${link}`),
  "103 Early Hints",
  "103 Early Hints\r\nContent-Length: 3",
  "103 Early Hints\r\nTransfer-Encoding: chunked",
  "100 Go\r\nX-Odd: a\x01b",
];

const LINES = [
  'Content-Disposition: attachment; filename="\xfcber.pdf"',
  "X-Latin: \xff\xfe",
  "Set-Cookie: a=b",
  "Set-Cookie: a=\xfc",
  "Connection: close",
  "Connection: keep-alive",
  "Connection: X-Answer, Content-Length",
  "Keep-Alive: timeout=1",
  "Keep-Alive: timeout=0, max=0",
  "Keep-Alive: timeout=-1",
  "Upgrade: h2c",
  "Trailer: X-Late",
  "Trailer: Content-Length",
  "Trailer:",
  "Via: 1.1 x",
  "Date: never",
  "Server: x",
  "X-Empty:",
  "Location: //x\xfc",
  "Content-Type: text/event-stream",
  "Content-Encoding: gzip",
  "X-Space : a",
  "X-Fold: a\r\n b",
  "X-Control: a\x01b",
  "X-Nul: a\0b",
  "X-Cr: a\rb",
  "X-Lf: a\nX-Injected: 1",
  ": nameless",
  "no colon",
  "X-\xfc: a",
  "X(y): a",
  "Nevertwice-Outcome: stored",
  "Proxy-Connection: close",
  "TE: trailers",
  "Expect: 100-continue",
  "X-Tab:\ta\tb\t",
  `X-Long: ${"l".repeat(9_000)}`,
  `X-Huge: ${"h".repeat(70_000)}`,
  Array.from({ length: 150 }, (_, index) => `X-Many-${index}: ${index}`).join("\r\n"),
  Array.from({ length: 2_500 }, (_, index) => `X-${index}: y`).join("\r\n"),
];

export function answeringFor(seed: number, index: number): Answering {
  const random = randomFor(seed, index);
  const id = `r${index}.${(random.below(65_536) + 65_536).toString(16)}`;
  const [method, path] = random.pick(REQUESTS);
  const version = random.chance(0.85) ? "1.1" : "1.0";
  const asksUpgrade = method === "GET" && random.chance(0.2);
  const head = [
    "Host: localhost",
    `X-Case: ${id}`,
    ...(method === "POST" ? [`Idempotency-Key: "k-${id}"`, "Content-Length: 2"] : []),
    ...(asksUpgrade
      ? [
          "Connection: Upgrade",
          "Upgrade: websocket",
          "Sec-WebSocket-Version: 13",
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
      : []),
    ...(random.chance(0.1) ? ["TE: trailers"] : []),
  ];
  const request = `${method} ${path}?case=${id} HTTP/${version}\r\n${head.join("\r\n")}\r\n\r\n${method === "POST" ? "{}" : ""}`;
  const last = asksUpgrade || version === "1.0" ? "" : lastRequest(`${id}.last`);
  const isNoise = index % NOISE_EVERY === NOISE_EVERY - 1;
  const answer = isNoise ? { pieces: inPieces(random, noise(random)), closes: true } : answerTo(random, id);
  return { index, id, method, version, request, asksUpgrade, last, ...answer };
}

function answerTo(random: Random, id: string): Pick<Answering, "pieces" | "closes"> {
  let bytes = "";
  for (let left = random.chance(0.2) ? 1 + random.below(2) : 0; left > 0; left--)
    bytes += `HTTP/1.1 ${random.pick(INTERIMS)}\r\n\r\n`;
  bytes += finalAnswer(random, id);
  if (random.chance(0.06)) bytes += finalAnswer(random, `${id}.second`);
  if (random.chance(0.02))
    bytes += random.pick(["garbage", "\r\n", "0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\0\0\0"]);
  if (random.chance(0.05)) bytes = mutated(random, bytes);
  if (random.chance(0.02))
    bytes = random.pick([
      "",
      "\r\n\r\n",
      "garbage\r\n\r\n",
      "HTTP/1.1",
      "\x16\x03\x01",
      "HTTP/1.1 200 OK\r\n\r\n\r\n",
    ]);
  const isCut = random.chance(0.08);
  const sent = isCut ? bytes.slice(0, random.below(bytes.length + 1)) : bytes;
  // After half an answer most connections are closed, because `gateway-stalls.test.ts` tests services that stall.
  const { messages, unfinished, malformed } = readResponses(sent, ["GET"], false);
  const isHalf = malformed === undefined && (unfinished !== undefined || messages.length === 0);
  return { pieces: inPieces(random, sent), closes: random.chance(isHalf ? 0.95 : 0.3) };
}

function finalAnswer(random: Random, id: string): string {
  const version = random.chance(0.94) ? "HTTP/1.1" : random.pick(VERSIONS);
  const status = random.chance(0.8) ? random.pick(STATUSES) : random.pick(ODD_STATUSES);
  const { lines, bytes } = framed(
    random,
    random.pick([
      "",
      "hello",
      `body of ${id}`,
      "b".repeat(5_000),
      "HTTP/1.1 200 OK\r\nX-Answer: forged\r\n\r\n",
    ]),
  );
  const head = [`X-Answer: ${id}`, ...lines];
  for (let left = random.pick([0, 0, 1, 1, 2]); left > 0; left--)
    head.splice(random.below(head.length + 1), 0, random.pick(LINES));
  return `${version} ${status}\r\n${head.join("\r\n")}\r\n\r\n${bytes}`;
}

function framed(random: Random, body: string): { readonly lines: readonly string[]; readonly bytes: string } {
  const chunks = () => {
    const half = random.below(body.length + 1);
    const parts = [body.slice(0, half), body.slice(half)].filter((part) => part !== "");
    const trailers = random.chance(0.2)
      ? random.pick([
          "X-Late: 1\r\n",
          "Content-Length: 3\r\n",
          "X-Answer: forged\r\n",
          "X-Latin: \xfc\r\n",
          "X: a\x01b\r\n",
        ])
      : "";
    return `${parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join("")}0\r\n${trailers}\r\n`;
  };
  const length = body.length;
  switch (random.below(14)) {
    case 0:
      return { lines: [], bytes: body };
    case 1:
      return { lines: [`Content-Length: ${length + 5}`], bytes: body };
    case 2:
      return { lines: [`Content-Length: ${Math.max(0, length - 3)}`], bytes: body };
    case 3:
      return {
        lines: random.pick([
          [`Content-Length: ${length}`, "Content-Length: 0"],
          [`Content-Length: ${length}`, `Content-Length: ${length}`],
          ["Content-Length: -1"],
          [`Content-Length: ${length}, ${length}`],
          ["Content-Length: 99999999999999999999"],
        ]),
        bytes: body,
      };
    case 4:
      return {
        lines: random.pick([
          ["Transfer-Encoding: gzip, chunked"],
          ["Transfer-Encoding: identity"],
          ["Transfer-Encoding: xchunked"],
          ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
          ["Transfer-Encoding: chunked, identity"],
        ]),
        bytes: chunks(),
      };
    case 5:
      return {
        lines: random.pick([
          ["Transfer-Encoding: chunked", `Content-Length: ${length}`],
          ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ]),
        bytes: chunks(),
      };
    case 6:
    case 7:
    case 8:
      return { lines: ["Transfer-Encoding: chunked"], bytes: chunks() };
    default:
      return { lines: [`Content-Length: ${length}`], bytes: body };
  }
}

function mutated(random: Random, bytes: string): string {
  const at = random.below(bytes.length);
  return bytes.slice(0, at) + String.fromCharCode(random.below(256)) + bytes.slice(at + random.below(3));
}
