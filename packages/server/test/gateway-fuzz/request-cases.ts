/**
 * The requests that a client sends over one connection: a few, most of them legal, some broken on purpose. The last one
 * asks the gateway to close the connection, so that the client knows when all of them were answered.
 */
import { framedBody } from "./framing.ts";
import { type Random, randomFor } from "./random.ts";
import { targetFor } from "./targets.ts";

export interface Sending {
  readonly index: number;
  /** How many requests there were before bytes were mutated. */
  readonly requests: number;
  /** Written one after the other. */
  readonly pieces: readonly string[];
}

const METHODS = ["POST", "POST", "POST", "GET", "GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] as const;
const RARE_METHODS = ["TRACE", "CONNECT", "post", "PURGE", "M-SEARCH", "POST\t", "PO ST", "QUERY", "PRI"];
const VERSIONS = ["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "http/1.1", "HTTP/1.1 ", "HTTP/1.11", ""];

const HOSTS: readonly (readonly string[])[] = [
  [],
  ["Host: localhost", "Host: localhost"],
  ["Host: localhost", "Host: other"],
  ["Host: user@localhost"],
  ["Host: other"],
  ["Host:"],
  ["Host: localhost:80, other"],
  ["Host: localhost\r\n other"],
  ["Host: localhost/payments"],
];

const KEYS: readonly ((key: string) => readonly string[])[] = [
  () => ["Idempotency-Key:"],
  (key) => [`Idempotency-Key: "${key}"`, `Idempotency-Key: "${key}-2"`],
  (key) => [`Idempotency_Key: "${key}"`],
  (key) => [`Idempotency-Key : "${key}"`],
  (key) => [`Idempotency-Key: "${key}`],
  (key) => [`idempotency-key: ${"k".repeat(300)}${key}`],
];

const CONNECTIONS = [
  "Connection: keep-alive",
  "Connection: close",
  "Connection: Idempotency-Key",
  "Connection: X-Tenant, Content-Length",
  "Connection: Transfer-Encoding, Host",
  "Proxy-Connection: keep-alive",
  "Keep-Alive: timeout=600",
];

const WEBSOCKET = [
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
const UPGRADES: readonly (readonly string[])[] = [
  ["Connection: Upgrade", ...WEBSOCKET],
  ["Connection: Upgrade", ...WEBSOCKET],
  ["Connection: keep-alive, upgrade", ...WEBSOCKET],
  ["Connection: Upgrade", "Upgrade: h2c"],
  ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"],
  ["Connection: Upgrade", "Upgrade: websocket, h2c"],
  ["Connection: Upgrade", "Upgrade: other"],
  ["Connection: close, Upgrade", ...WEBSOCKET],
  ["Upgrade: websocket"],
];

const FORGED = [
  "Forwarded",
  "X-Forwarded-For",
  "X_Forwarded_For",
  "x-forwarded_host",
  "X-Forwarded-Proto",
  "X-Forwarded-Port",
  "X_Real_IP",
  "Nevertwice-Fence",
  "nevertwice_fence",
];

const ODD_LINES = [
  "X-Fold: a\r\n b",
  "X-Fold: a\r\n\tTransfer-Encoding: chunked",
  " X-First: fold",
  "X-Lf: a\nX-Case: forged",
  "X-Cr: a\rb",
  "X-Nul: a\0b",
  "X-Space : a",
  ": nameless",
  "no colon",
  "X-Control: a\x01b",
  "X-Del: a\x7fb",
  "X-Latin: \xfc\xff",
  "X-\xfc: a",
  "X(y): a",
  `X-Long: ${"l".repeat(9_000)}`,
  `X-Longer: ${"l".repeat(40_000)}`,
  Array.from({ length: 120 }, (_, index) => `X-Many-${index}: ${index}`).join("\r\n"),
  "X-Empty:",
  "Via: 1.1 other",
  "\r\nX-After: head",
];

const MORE_LINES = [
  "TE: trailers",
  "TE: gzip",
  "Expect: 100-continue",
  "Expect: 100-Continue",
  "Expect: 200-ok",
  "Trailer: X-Late",
  "Trailer: Content-Length",
  "Content-Type: application/json",
  "Accept-Encoding: gzip",
  "Range: bytes=0-1",
  "Max-Forwards: 0",
  "Content-Encoding: gzip",
];

export function sendingFor(seed: number, index: number): Sending {
  const random = randomFor(seed, index);
  if (index % NOISE_EVERY === NOISE_EVERY - 1) {
    const bytes = noise(random) + lastRequest(idOf(random, index, 0));
    return { index, requests: 1, pieces: inPieces(random, bytes) };
  }
  const count = random.pick([1, 1, 2, 3, 4]);
  let bytes = "";
  for (let turn = 0; turn < count; turn++) bytes += requestFor(random, idOf(random, index, turn));
  bytes += lastRequest(idOf(random, index, count));
  if (random.chance(0.15)) bytes = mutated(random, bytes);
  return { index, requests: count + 1, pieces: inPieces(random, bytes) };
}

/** A request that asks the gateway to close the connection. */
export function lastRequest(id: string): string {
  return `GET /free?case=${id} HTTP/1.1\r\nHost: localhost\r\nX-Case: ${id}\r\nConnection: close\r\n\r\n`;
}

/** The random digits make sure that a mutated id is never the id of another case. */
function idOf(random: Random, index: number, turn: number): string {
  return `c${index}.${turn}.${(random.below(65_536) + 65_536).toString(16)}`;
}

function requestFor(random: Random, id: string): string {
  const method = random.chance(0.97) ? random.pick(METHODS) : random.pick(RARE_METHODS);
  const version = random.chance(0.97) ? "HTTP/1.1" : random.pick(VERSIONS);
  const inner = `POST /payments?case=${id}.inner HTTP/1.1\r\nHost: localhost\r\nX-Case: ${id}.inner\r\nContent-Length: 0\r\n\r\n`;
  const { lines, bytes } = framedBody(random, inner);
  const key = random.below(10);
  const head = [
    ...(random.chance(0.97) ? ["Host: localhost"] : random.pick(HOSTS)),
    `X-Case: ${id}`,
    ...(key < 4 ? [`Idempotency-Key: "k-${id}"`] : key < 5 ? random.pick(KEYS)(`k-${id}`) : []),
    ...(random.chance(0.6) ? [random.pick(["X-Tenant: t1", "X-Tenant: t2", "X_Tenant: t1"])] : []),
    ...lines,
    ...(random.chance(0.1) ? [random.pick(CONNECTIONS)] : []),
    ...(random.chance(0.1) ? [...random.pick(UPGRADES), random.pick(MORE_LINES)] : []),
    ...(random.chance(0.2) ? [random.pick(MORE_LINES)] : []),
    ...(random.chance(0.1) ? [`${random.pick(FORGED)}: forged`] : []),
    ...(random.chance(0.05) ? [random.pick(ODD_LINES)] : []),
  ];
  if (random.chance(0.2)) head.reverse();
  return `${method} ${targetFor(random, id)} ${version}\r\n${head.join("\r\n")}\r\n\r\n${bytes}`;
}

/** Of so many cases one follows no grammar. Chosen by number, so that a seed generates the other cases as before. */
export const NOISE_EVERY = 50;

/** Random bytes, most of them with the characters that have a meaning in a head. */
export function noise(random: Random): string {
  const alphabet = random.chance(0.3) ? undefined : [..."\r\n\r\n :;,/%?#@0123456789abcfGETPOSHTP.1\0\t\xff"];
  const length = random.pick([1, 8, 60, 400, 3_000]);
  return Array.from(
    { length },
    () => alphabet?.[random.below(alphabet.length)] ?? String.fromCharCode(random.below(256)),
  ).join("");
}

/** Changes, adds or removes bytes at one to three random places. */
function mutated(random: Random, given: string): string {
  let bytes = given;
  for (let left = 1 + random.below(3); left > 0; left--) {
    const at = random.below(bytes.length);
    const byte = random.chance(0.5)
      ? String.fromCharCode(random.below(256))
      : random.pick([..."\r\n\0\t :;,/%"]);
    const kind = random.below(5);
    if (kind === 0) bytes = bytes.slice(0, at) + byte + bytes.slice(at + 1);
    else if (kind === 1) bytes = bytes.slice(0, at) + byte + bytes.slice(at);
    else if (kind === 2) bytes = bytes.slice(0, at) + bytes.slice(at + 1 + random.below(3));
    else if (kind === 3)
      bytes = bytes.slice(0, at) + bytes.slice(at).replace("\r\n", random.pick(["\n", "\r", ""]));
    else bytes = bytes.slice(0, at) + bytes.slice(at, at + random.below(30)) + bytes.slice(at);
  }
  return bytes;
}

/** Splits some short texts into single bytes and some texts at random points; most stay whole. */
export function inPieces(random: Random, bytes: string): readonly string[] {
  const kind = random.below(10);
  if (kind === 0 && bytes.length < 600) return [...bytes];
  if (kind > 3) return [bytes];
  const points = Array.from({ length: 1 + random.below(5) }, () => random.below(bytes.length));
  const inOrder = [0, ...points.sort((a, b) => a - b), bytes.length];
  return inOrder.slice(1).map((end, index) => bytes.slice(inOrder[index], end));
}
