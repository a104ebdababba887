/** Answers as they came, and what is asked of them. */
import { createHash } from "node:crypto";
import type { HeaderLine } from "../../http/exchange.ts";
import { expect } from "../cases/expect.ts";

export interface Answer {
  readonly status: number;
  /** Where the protocol has reason phrases. */
  readonly reason: string | undefined;
  readonly headers: readonly HeaderLine[];
  readonly body: Uint8Array;
  readonly trailers: readonly HeaderLine[];
}

type Head = Pick<Answer, "headers">;

/** What belongs to one connection or one moment, so that two answers of one application differ in it. */
const MOMENTARY = new Set(["date", "connection", "keep-alive", "transfer-encoding"]);
const LENGTH = "content-length";

export function valuesOf({ headers }: Head, name: string): readonly string[] {
  return headers.filter(([line]) => line.toLowerCase() === name).map(([, value]) => value);
}

/** Fails unless the layer let the answer through as the bare application gives it. */
export function expectSame(found: Answer, bare: Answer): void {
  expect("the status behind the layer, compared with the bare application's", found.status, bare.status);
  expect("the reason phrase behind the layer", found.reason, bare.reason);
  expect("the body behind the layer", shown(found.body), shown(bare.body));
  expect("the header lines behind the layer", sorted(linesOf(found, bare)), sorted(linesOf(bare, bare)));
  expect("the trailers behind the layer", sorted(found.trailers), sorted(bare.trailers));
}

/** Without what is momentary. A length may be told where the bare application sends chunks, if it is the right one. */
function linesOf(answer: Answer, bare: Answer): readonly HeaderLine[] {
  const isExtra =
    valuesOf(bare, LENGTH).length === 0 && valuesOf(answer, LENGTH).join() === `${answer.body.length}`;
  return answer.headers.filter(([name]) => {
    const lower = name.toLowerCase();
    return !MOMENTARY.has(lower) && !(isExtra && lower === LENGTH);
  });
}

/** By name; several values of one name stay in their order. */
function sorted(lines: readonly HeaderLine[]): readonly string[] {
  const byName = [...lines].sort(([a], [b]) =>
    a.toLowerCase() < b.toLowerCase() ? -1 : a.toLowerCase() > b.toLowerCase() ? 1 : 0,
  );
  return byName.map(([name, value]) => `${name}: ${value}`);
}

const REPLAYED = new Set(["location", "etag", "last-modified", "link"]);

function isReplayed(name: string): boolean {
  return REPLAYED.has(name) || (name.startsWith("content-") && name !== LENGTH);
}

/** Those header lines that a replay has from the first answer. */
function replayedLines(answer: Answer): readonly string[] {
  const lines = answer.headers.map(([name, value]): HeaderLine => [name.toLowerCase(), value]);
  return sorted(lines.filter(([name]) => isReplayed(name)));
}

/** Fails unless `found` hands back what was answered first: to the byte, and marked. */
export function expectReplay(found: Answer, first: Answer): void {
  expect("the status of the replay", found.status, first.status);
  expect("the body of the replay", shown(found.body), shown(first.body));
  expect("the replayed header lines", replayedLines(found), replayedLines(first));
  expectMarked(found);
}

/** Fails unless `found` is the head of what was answered first, and says that its body was not kept. */
export function expectMarker(found: Answer, first: Pick<Answer, "status" | "headers">): void {
  expect("the status of the replay", found.status, first.status);
  expect("the body of the replay", shown(found.body), shown(new Uint8Array()));
  expect("the type of the replay", valuesOf(found, "content-type"), valuesOf(first, "content-type"));
  expect("Nevertwice-Outcome of the replay", valuesOf(found, "nevertwice-outcome"), ["not-kept"]);
  expectMarked(found);
}

function expectMarked(found: Answer): void {
  expect("Idempotent-Replayed of the replay", valuesOf(found, "idempotent-replayed"), ["true"]);
  expect("Cache-Control of the replay", valuesOf(found, "cache-control"), ["no-store"]);
  expect("Set-Cookie of the replay", valuesOf(found, "set-cookie"), []);
  const length = valuesOf(found, LENGTH);
  const isBodiless = found.status === 204 || found.status === 304;
  if (length.length > 0 && !isBodiless)
    expect("Content-Length of the replay", length, [`${found.body.length}`]);
}

/** Fails unless `found` is a problem of this code. */
export function expectProblem(found: Answer, status: number, code: string): void {
  expect("the status of the problem", found.status, status);
  expect("the type of the problem", valuesOf(found, "content-type"), ["application/problem+json"]);
  expect("the problem", problemOf(found), { status, code });
  expect("Idempotent-Replayed of the problem", valuesOf(found, "idempotent-replayed"), []);
  expect("Set-Cookie of the problem", valuesOf(found, "set-cookie"), []);
}

/** Fails unless the client is told in whole seconds when to come back. */
export function expectRetryAfter(found: Head): void {
  const [seconds, ...more] = valuesOf(found, "retry-after");
  expect("the number of Retry-After lines", more.length + (seconds === undefined ? 0 : 1), 1);
  expect(
    "whether Retry-After is a whole number from 1",
    Number(seconds) >= 1 && /^\d+$/.test(seconds ?? ""),
    true,
  );
}

/** The code of a problem; undefined where the answer is none. */
export function codeOf(answer: Answer): unknown {
  const isProblem = valuesOf(answer, "content-type").join().startsWith("application/problem+json");
  return isProblem ? problemOf(answer)?.code : undefined;
}

function problemOf({ body }: Answer): { readonly code?: unknown } | undefined {
  try {
    return JSON.parse(textOf(body)) as { readonly code?: unknown };
  } catch {
    return undefined;
  }
}

export function textOf(body: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(body);
}

export function joined(chunks: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(chunks);
}

const SHOWN_BYTES = 40;

/** Bytes so that two that differ are shown differently, and long ones shortly. */
function shown(body: Uint8Array): string {
  const start = JSON.stringify(Buffer.from(body.subarray(0, SHOWN_BYTES)).toString("latin1"));
  const digest = createHash("sha256").update(body).digest("hex").slice(0, 16);
  return `${body.length} bytes (sha256 ${digest}), ${start}`;
}
