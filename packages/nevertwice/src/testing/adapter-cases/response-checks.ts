/** Answers as received, and checks of them. */
import { createHash } from "node:crypto";
import type { HeaderLine } from "../../http/http-message.ts";
import { HTTP_DEFAULTS } from "../../http/options.ts";
import { expect } from "../cases/expect.ts";

export interface CollectedResponse {
  readonly status: number;
  /** Undefined over protocols without reason phrases. */
  readonly reason: string | undefined;
  readonly headers: readonly HeaderLine[];
  readonly body: Uint8Array;
  readonly trailers: readonly HeaderLine[];
}

type Head = Pick<CollectedResponse, "headers">;

/** Headers of one connection or one moment, in which two answers of the same application differ. */
const MOMENTARY = new Set(["date", "connection", "keep-alive", "transfer-encoding"]);
const LENGTH = "content-length";
const OUTCOME = "nevertwice-outcome";
const REPLAYED_HEADER = HTTP_DEFAULTS.replayedHeader;
export const REPLAYED: string = REPLAYED_HEADER.toLowerCase();

export function headerValues({ headers }: Head, name: string): readonly string[] {
  return headers.filter(([line]) => line.toLowerCase() === name).map(([, value]) => value);
}

/** Fails unless the answer equals that of the bare application. */
export function expectSame(found: CollectedResponse, bare: CollectedResponse): void {
  expect("the status behind the layer, compared with the bare application's", found.status, bare.status);
  expect("the reason phrase behind the layer", found.reason, bare.reason);
  expect("the body behind the layer", shown(found.body), shown(bare.body));
  expect(
    "the header lines behind the layer",
    sorted(comparedLines(found, bare)),
    sorted(comparedLines(bare, bare)),
  );
  expect("the trailers behind the layer", sorted(found.trailers), sorted(bare.trailers));
}

/**
 * Without momentary headers, and without what the layer says about the outcome. A correct Content-Length is also left out if the bare application sends chunks without one.
 */
function comparedLines(answer: CollectedResponse, bare: CollectedResponse): readonly HeaderLine[] {
  const isExtra =
    headerValues(bare, LENGTH).length === 0 &&
    headerValues(answer, LENGTH).join() === `${answer.body.length}`;
  return answer.headers.filter(([name]) => {
    const lower = name.toLowerCase();
    return !MOMENTARY.has(lower) && lower !== OUTCOME && !(isExtra && lower === LENGTH);
  });
}

/** Sorted by name. Several values of one name keep their order. */
function sorted(lines: readonly HeaderLine[]): readonly string[] {
  const byName = [...lines].sort(([a], [b]) =>
    a.toLowerCase() < b.toLowerCase() ? -1 : a.toLowerCase() > b.toLowerCase() ? 1 : 0,
  );
  return byName.map(([name, value]) => `${name}: ${value}`);
}

const REPLAYED_NAMES = new Set(["location", "etag", "last-modified", "link"]);

function isReplayed(name: string): boolean {
  return REPLAYED_NAMES.has(name) || (name.startsWith("content-") && name !== LENGTH);
}

/** The header lines that a replay takes from the first answer. */
function replayedLines(answer: CollectedResponse): readonly string[] {
  const lines = answer.headers.map(([name, value]): HeaderLine => [name.toLowerCase(), value]);
  return sorted(lines.filter(([name]) => isReplayed(name)));
}

/** Fails unless `found` is a replay of `first`: the same bytes, and marked as a replay. */
export function expectReplay(found: CollectedResponse, first: CollectedResponse): void {
  expect("the status of the replay", found.status, first.status);
  expect("the body of the replay", shown(found.body), shown(first.body));
  expect("the replayed header lines", replayedLines(found), replayedLines(first));
  expectMarked(found);
}

/** Fails unless `found` is a replay of the head of `first` that says that the body was not kept. */
export function expectMarker(
  found: CollectedResponse,
  first: Pick<CollectedResponse, "status" | "headers">,
): void {
  expect("the status of the replay", found.status, first.status);
  expect("the body of the replay", shown(found.body), shown(new Uint8Array()));
  expect("the type of the replay", headerValues(found, "content-type"), headerValues(first, "content-type"));
  expect("Nevertwice-Outcome of the replay", headerValues(found, OUTCOME), ["not-kept"]);
  expectMarked(found);
}

/** Fails unless `found` refuses a retry because the answer to the first request was not kept. */
export function expectUnkept(found: CollectedResponse): void {
  expectProblem(found, 409, "already-done");
  expectUnmarked(found, "the refusal");
}

/** Fails unless this first answer tells its client that a retry will not get its body. */
export function expectToldUnkept(first: Head): void {
  expect("Nevertwice-Outcome of the first answer", headerValues(first, OUTCOME), ["not-kept"]);
}

function expectMarked(found: CollectedResponse): void {
  expect(`${REPLAYED_HEADER} of the replay`, headerValues(found, REPLAYED), ["true"]);
  expect("Cache-Control of the replay", headerValues(found, "cache-control"), ["no-store"]);
  expect("Set-Cookie of the replay", headerValues(found, "set-cookie"), []);
  const length = headerValues(found, LENGTH);
  const isBodiless = found.status === 204 || found.status === 304;
  if (length.length > 0 && !isBodiless)
    expect("Content-Length of the replay", length, [`${found.body.length}`]);
}

/** Fails if `found` says that it is a replay. */
export function expectUnmarked(found: CollectedResponse, what: string): void {
  expect(`${REPLAYED_HEADER} of ${what}`, headerValues(found, REPLAYED), []);
}

/** Fails unless `found` is a problem of this code. */
export function expectProblem(found: CollectedResponse, status: number, code: string): void {
  expect("the status of the problem", found.status, status);
  expect("the type of the problem", headerValues(found, "content-type"), ["application/problem+json"]);
  expect("the problem", parseProblem(found), { status, code });
  expectUnmarked(found, "the problem");
  expect("Set-Cookie of the problem", headerValues(found, "set-cookie"), []);
}

/** Fails unless there is one Retry-After in whole seconds. */
export function expectRetryAfter(found: Head): void {
  const [seconds, ...more] = headerValues(found, "retry-after");
  expect("the number of Retry-After lines", more.length + (seconds === undefined ? 0 : 1), 1);
  expect(
    "whether Retry-After is a whole number from 1",
    Number(seconds) >= 1 && /^\d+$/.test(seconds ?? ""),
    true,
  );
}

/** The code of a problem; undefined if the answer is not a problem. */
export function problemCode(answer: CollectedResponse): unknown {
  const isProblem = headerValues(answer, "content-type").join().startsWith("application/problem+json");
  return isProblem ? parseProblem(answer)?.code : undefined;
}

function parseProblem({ body }: CollectedResponse): { readonly code?: unknown } | undefined {
  try {
    return JSON.parse(toText(body)) as { readonly code?: unknown };
  } catch {
    return undefined;
  }
}

export function toText(body: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(body);
}

export function joined(chunks: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(chunks);
}

const SHOWN_BYTES = 40;

/** A short description of bytes. Different bytes have different descriptions. */
export function shown(body: Uint8Array): string {
  const start = JSON.stringify(Buffer.from(body.subarray(0, SHOWN_BYTES)).toString("latin1"));
  const digest = createHash("sha256").update(body).digest("hex").slice(0, 16);
  return `${body.length} bytes (sha256 ${digest}), ${start}`;
}
