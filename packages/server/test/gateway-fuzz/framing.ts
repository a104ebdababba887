/** Bodies, and header lines that say where they end: correct ones, wrong ones, and contradictions. */
import type { Random } from "./random.ts";

export interface Framed {
  readonly lines: readonly string[];
  readonly bytes: string;
}

const LENGTHS: readonly ((length: number) => readonly string[])[] = [
  (length) => [`Content-Length: ${length}`, `Content-Length: ${length}`],
  (length) => [`Content-Length: ${length}`, "Content-Length: 0"],
  (length) => [`Content-Length: +${length}`],
  (length) => [`Content-Length: -${length}`],
  (length) => [`Content-Length: ${length}, ${length}`],
  (length) => [`Content-Length: ${length},0`],
  (length) => [`Content-Length: 0x${length.toString(16)}`],
  (length) => [`Content-Length: 0${length}`],
  (length) => [`Content-Length: ${length}_0`],
  (length) => [`Content-Length:   ${length}\t`],
  (length) => [`Content-Length : ${length}`],
  (length) => [`Content-Length: ${Math.max(0, length - 7)}`],
  (length) => [`Content-Length: ${length + 9}`],
  (length) => [`content_length: ${length}`],
  (length) => [`Content-Length: ${length}.0`],
  () => ["Content-Length:"],
  () => ["Content-Length: 99999999999999999999"],
  () => ["Content-Length: 18446744073709551617"],
  () => ["Content-Length: \xb2"],
];

const CODINGS: readonly (readonly string[])[] = [
  ["Transfer-Encoding: Chunked"],
  ["Transfer-Encoding: chunked, chunked"],
  ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
  ["Transfer-Encoding: xchunked"],
  ["Transfer-Encoding: \tchunked\t"],
  ["Transfer-Encoding: \x0bchunked"],
  ["Transfer-Encoding: gzip, chunked"],
  ["Transfer-Encoding: chunked, identity"],
  ["Transfer-Encoding: identity"],
  ["Transfer-Encoding: identity, chunked"],
  ["Transfer-Encoding: chunked;q=1"],
  ["Transfer-Encoding: chunked,"],
  ["Transfer-Encoding:"],
  ["Transfer-Encoding : chunked"],
  ["Transfer_Encoding: chunked"],
  ["Transfer-Encoding:\r\n chunked"],
  ["Transfer-Encoding: chunked", "Content-Length: 4"],
  ["Content-Length: 0", "Transfer-Encoding: chunked"],
  ["Content-Length: 4", "Transfer-Encoding: identity"],
  ["X: y\nTransfer-Encoding: chunked"],
];

const TRAILERS = [
  "X-Late: 1",
  "Content-Length: 5",
  "X-Forwarded-For: forged",
  "X_Real_IP: forged",
  "Host: forged",
  "Idempotency-Key: late",
  "Nevertwice-Fence: forged",
  "bad line",
  "X: \0",
];

/** `inner` is a complete request with its own id. Only a reader that misses the end of the body takes it for a request. */
export function framedBody(random: Random, inner: string): Framed {
  const body = bodyFor(random, inner);
  const kind = random.below(40);
  if (kind < 10) return { lines: [], bytes: random.chance(0.95) ? "" : body };
  if (kind < 26) return { lines: [`Content-Length: ${body.length}`], bytes: body };
  if (kind < 28) return { lines: random.pick(LENGTHS)(body.length), bytes: body };
  if (kind < 37) return { lines: ["Transfer-Encoding: chunked"], bytes: chunked(random, body) };
  return { lines: random.pick(CODINGS), bytes: random.chance(0.8) ? chunked(random, body) : body };
}

function bodyFor(random: Random, inner: string): string {
  switch (random.below(6)) {
    case 0:
      return "";
    case 1:
    case 2:
      return inner;
    case 3:
      return `0\r\n\r\n${inner}`;
    case 4:
      return "x".repeat(random.pick([1, 100, 3_000, 20_000]));
    default:
      return '{"amount":7}';
  }
}

function chunked(random: Random, body: string): string {
  let bytes = "";
  for (let at = 0; at < body.length; ) {
    const size = Math.min(body.length - at, 1 + random.below(random.pick([3, 100, 20_000])));
    // A body in tiny chunks would take longer than all other cases together.
    const data = body.length > 500 ? body.slice(at) : body.slice(at, at + size);
    bytes += `${sizeLine(random, data.length)}\r\n${data}\r\n`;
    at += data.length;
  }
  const trailers = random.chance(0.2) ? `${random.pick(TRAILERS)}\r\n` : "";
  const whole = `${bytes}${random.chance(0.95) ? "0" : "000"}\r\n${trailers}\r\n`;
  if (random.chance(0.95)) return whole;
  return random.pick([whole.replace("\r\n", "\n"), whole.replace("\r\n", ""), whole.replace(/\r\n/g, "\n")]);
}

function sizeLine(random: Random, size: number): string {
  const hex = size.toString(16);
  if (random.chance(0.93)) return hex;
  const odd = [
    `0${hex}`,
    hex.toUpperCase(),
    `${hex};x=y`,
    `${hex};x="\\""`,
    `${hex} ;x`,
    ` ${hex}`,
    `${hex} `,
  ];
  return random.pick([
    ...odd,
    `0x${hex}`,
    `+${hex}`,
    `-${hex}`,
    `${hex};\nx`,
    `${hex};x\rz`,
    `1${"0".repeat(16)}${hex}`,
  ]);
}
