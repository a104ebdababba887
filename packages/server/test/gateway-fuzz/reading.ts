/**
 * A strict reader of HTTP/1.1 that shares no code with node's parser. It refuses every message that two programs may
 * read differently. Bytes are latin1 strings: one character is one byte.
 */

export type Lines = readonly (readonly [name: string, value: string])[];

interface Message {
  readonly headers: Lines;
  readonly body: string;
  readonly trailers: Lines;
  /** Whether the body is complete. */
  readonly isWhole: boolean;
}

export interface ReadRequest extends Message {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  /** Why the gateway must refuse it, although all programs agree where it ends. */
  readonly objection: string | undefined;
}

export interface ReadResponse extends Message {
  readonly status: number;
  /** True if the body ends with the connection, so that nothing says whether it is complete. */
  readonly isUntilClose: boolean;
}

export interface Reading<M extends Message> {
  readonly messages: readonly M[];
  /** The last message, if its head is complete and its body is not. */
  readonly unfinished: M | undefined;
  /** Why the reader stopped: bytes that it cannot read. */
  readonly malformed: string | undefined;
  /** Where the last complete message ends. */
  readonly offset: number;
}

/** RFC 9112, 3: whitespace in front of the version may be more than one space. */
const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([!-~\x80-\xff]+) +HTTP\/(1\.[01])$/;
const STATUS_LINE = /^HTTP\/1\.[01] ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const HEADER_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;
const CHUNK_LINE = /^([0-9a-fA-F]{1,12})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?$/;

class Malformed extends Error {}

export function valuesOf(lines: Lines, name: string): readonly string[] {
  return lines.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
}

export function readRequests(bytes: string): Reading<ReadRequest> {
  return readAll(bytes, skipEmptyLines, (start, lines) => {
    const parts = REQUEST_LINE.exec(start);
    if (parts === null) throw new Malformed(`the request line ${JSON.stringify(start.slice(0, 80))}`);
    const [, method = "", target = "", version = ""] = parts;
    const framing = framingOf(lines);
    if (framing === "chunked" && version === "1.0") throw new Malformed("chunks in HTTP/1.0");
    return {
      framing: framing ?? 0,
      message: {
        method,
        target,
        version,
        headers: lines,
        objection: hostObjection(lines, version) ?? codingObjection(lines),
      },
    };
  });
}

function hostObjection(lines: Lines, version: string): string | undefined {
  const hosts = valuesOf(lines, "host");
  if (hosts.length > 1) return "more than one Host";
  if (hosts.length === 0) return version === "1.0" ? undefined : "no Host";
  return /[@/?#\\,\s]/.test(hosts[0] ?? "") ? "a Host that is no name" : undefined;
}

/** The last coding says where the body ends. The gateway does not pass on bodies with other codings. */
function codingObjection(lines: Lines): string | undefined {
  const [coding = "chunked"] = valuesOf(lines, "transfer-encoding");
  return coding.toLowerCase() === "chunked" ? undefined : `Transfer-Encoding: ${coding}`;
}

/** `methods` are those of the answered requests, in order. `isClosed` is true if no more bytes will come. */
export function readResponses(
  bytes: string,
  methods: readonly string[],
  isClosed: boolean,
): Reading<ReadResponse> {
  let final = 0;
  return readAll(
    bytes,
    (_, offset) => offset,
    (start, lines) => {
      const status = Number(STATUS_LINE.exec(start)?.[1]);
      if (!(status >= 100)) throw new Malformed(`the status line ${JSON.stringify(start.slice(0, 80))}`);
      const method = methods[final];
      if (status >= 200) final++;
      const declared = framingOf(lines);
      const hasNone = status < 200 || status === 204 || status === 304 || method === "HEAD";
      const framing = hasNone ? 0 : (declared ?? (isClosed ? "rest" : "open"));
      const isUntilClose = framing === "rest" || framing === "open";
      return { framing, message: { status, headers: lines, isUntilClose } };
    },
  );
}

type Framing = number | "chunked" | "rest" | "open";
interface Head<M> {
  readonly framing: Framing;
  readonly message: Omit<M, "body" | "trailers" | "isWhole">;
}

function readAll<M extends Message>(
  bytes: string,
  skip: (bytes: string, offset: number) => number,
  readHead: (start: string, lines: Lines) => Head<M>,
): Reading<M> {
  const messages: M[] = [];
  let offset = 0;
  let unfinished: M | undefined;
  let malformed: string | undefined;
  try {
    for (;;) {
      const from = skip(bytes, offset);
      const end = bytes.indexOf("\r\n\r\n", from);
      if (end < 0) break;
      const [start = "", ...rest] = bytes.slice(from, end).split("\r\n");
      const { framing, message } = readHead(start, rest.map(headerLine));
      const { next, malformed: why, ...body } = readBody(bytes, end + 4, framing);
      const read = { ...message, ...body } as M;
      if (!read.isWhole) {
        unfinished = read;
        malformed = why;
        break;
      }
      messages.push(read);
      offset = next;
    }
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    malformed = error.message;
  }
  return { messages, unfinished, malformed, offset };
}

/** CR and LF in front of a request line are ignored. */
function skipEmptyLines(bytes: string, offset: number): number {
  let from = offset;
  while (bytes[from] === "\r" || bytes[from] === "\n") from++;
  return from;
}

function headerLine(line: string): readonly [string, string] {
  const parts = HEADER_LINE.exec(line);
  if (parts === null) throw new Malformed(`the header line ${JSON.stringify(line.slice(0, 80))}`);
  return [parts[1] ?? "", parts[2] ?? ""];
}

function framingOf(lines: Lines): number | "chunked" | undefined {
  const lengths = valuesOf(lines, "content-length");
  const codings = valuesOf(lines, "transfer-encoding");
  if (codings.length > 0) {
    // Other codings may come first.
    if (codings.length > 1 || !/^(?:(?!chunked)[a-z]+, ?)*chunked$/i.test(codings[0] ?? ""))
      throw new Malformed(`Transfer-Encoding: ${codings.join(" and ")}`);
    if (lengths.length > 0) throw new Malformed("both Transfer-Encoding and Content-Length");
    return "chunked";
  }
  if (lengths.length === 0) return undefined;
  if (lengths.length > 1 || !/^\d{1,15}$/.test(lengths[0] ?? ""))
    throw new Malformed(`Content-Length: ${lengths.join(" and ")}`);
  return Number(lengths[0]);
}

interface ReadBody {
  readonly body: string;
  readonly trailers: Lines;
  readonly isWhole: boolean;
  readonly next: number;
  readonly malformed?: string;
}

function readBody(bytes: string, from: number, framing: Framing): ReadBody {
  if (framing === "chunked") return readChunks(bytes, from);
  const until = framing === "rest" || framing === "open" ? bytes.length : from + framing;
  const isWhole = framing !== "open" && until <= bytes.length;
  return { body: bytes.slice(from, until), trailers: [], isWhole, next: until };
}

function readChunks(bytes: string, from: number): ReadBody {
  let at = from;
  let body = "";
  const partial = (malformed?: string): ReadBody => ({
    body,
    trailers: [],
    isWhole: false,
    next: at,
    ...(malformed !== undefined && { malformed }),
  });
  for (;;) {
    const end = bytes.indexOf("\r\n", at);
    if (end < 0) return partial();
    const line = bytes.slice(at, end);
    const size = Number.parseInt(CHUNK_LINE.exec(line)?.[1] ?? "none", 16);
    if (Number.isNaN(size)) return partial(`the chunk line ${JSON.stringify(line.slice(0, 80))}`);
    at = end + 2;
    if (size === 0) break;
    body += bytes.slice(at, at + size);
    if (bytes.length < at + size + 2) return partial();
    if (!bytes.startsWith("\r\n", at + size)) return partial("a chunk longer than its size");
    at += size + 2;
  }
  if (bytes.startsWith("\r\n", at)) return { body, trailers: [], isWhole: true, next: at + 2 };
  const end = bytes.indexOf("\r\n\r\n", at);
  if (end < 0) return partial();
  const lines = bytes.slice(at, end).split("\r\n");
  const bad = lines.find((line) => !HEADER_LINE.test(line));
  if (bad !== undefined) return partial(`the trailer ${JSON.stringify(bad.slice(0, 80))}`);
  return { body, trailers: lines.map(headerLine), isWhole: true, next: end + 4 };
}
