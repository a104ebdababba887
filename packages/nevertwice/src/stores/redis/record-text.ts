/** The text of a record in Redis, as redis-lua.ts describes it: what clients read, and the lines that they write. */
import { partsText } from "../../core/parts.ts";
import type { ClaimRequest, Parts } from "../../core/store.ts";
import { RECORD_VERSION } from "../redis-lua.ts";

/** A record whose text could be read. Token and fingerprint are still escaped, and the parts are not parsed. */
export interface RecordText {
  readonly state: "pending" | "lapsed" | "released" | "completed";
  readonly fence: number;
  readonly number: number;
  readonly hold: boolean;
  readonly tookOver: boolean;
  readonly claimedAt: number;
  /** 0 if it is completed. */
  readonly leaseMs: number;
  /** When the lease ends, or when the record was completed. */
  readonly endsAt: number;
  readonly retentionMs: number;
  /** The line of its history; undefined if there is none. */
  readonly history: string | undefined;
  readonly token: string;
  /** Empty if there is none. */
  readonly fingerprint: string;
  /** Empty once the record is forgotten. */
  readonly parts: string;
  /** The outcome of a completed record; else the lines of its steps. */
  readonly rest: string;
}

const STATES: Readonly<Record<string, RecordText["state"]>> = {
  p: "pending",
  l: "lapsed",
  r: "released",
  c: "completed",
};

/** The first line, in the pattern of the scripts, with numbers of at most 16 digits. */
const WORDS = new RegExp(
  `^${RECORD_VERSION}([plrc])(\\d{1,16}) (\\d{1,16}) ([01])([01])${" (\\d{1,16})".repeat(4)}(?:\\|([\\w ;]*))?$`,
);

/** Undefined if no script of this version wrote the text. */
export function parseText(text: string): RecordText | undefined {
  const tokenAt = text.indexOf("\n") + 1;
  const fingerprintAt = text.indexOf("\n", tokenAt) + 1;
  const partsAt = text.indexOf("\n", fingerprintAt) + 1;
  const restAt = text.indexOf("\n", partsAt) + 1;
  // A line break that is missing counts as one at the beginning.
  if (!(tokenAt > 0 && tokenAt < fingerprintAt && fingerprintAt < partsAt && partsAt < restAt))
    return undefined;
  const words = WORDS.exec(text.slice(0, tokenAt - 1));
  const state = STATES[words?.[1] ?? ""];
  if (words === null || state === undefined) return undefined;
  const fence = Number(words[2]);
  const claimedAt = Number(words[6]);
  const leaseMs = Number(words[7]);
  const endsAt = Number(words[8]);
  if (endsAt === 0 || (state === "completed" && leaseMs !== 0)) return undefined;
  return {
    state,
    fence,
    number: Number(words[3]),
    hold: words[4] === "1",
    tookOver: words[5] === "1",
    claimedAt: claimedAt === 0 ? Math.floor(fence / 1_000) : claimedAt,
    leaseMs,
    endsAt,
    retentionMs: Number(words[9]),
    history: words[10],
    token: text.slice(tokenAt, fingerprintAt - 1),
    fingerprint: text.slice(fingerprintAt, partsAt - 1),
    parts: text.slice(partsAt, restAt - 1),
    rest: text.slice(restAt),
  };
}

/** The lines of a claim that follow its words. */
export function claimLines({ token, fingerprint = "", parts }: ClaimRequest): string {
  return `${escapeLine(token)}\n${escapeLine(fingerprint)}\n${formatParts(parts)}\n`;
}

/** What JSON must escape, and what this file leaves to it. */
const NOT_PLAIN = /[^ !#-[\]-~]/;

/** `partsText` in a fraction of its time if no part needs escaping. */
export function formatParts(parts: Parts): string {
  const { namespace, scope, operation, key } = parts;
  return NOT_PLAIN.test(key) ||
    NOT_PLAIN.test(operation) ||
    NOT_PLAIN.test(scope) ||
    NOT_PLAIN.test(namespace)
    ? partsText(parts)
    : `["${namespace}","${scope}","${operation}","${key}"]`;
}

/** Redis uses whole milliseconds. Rounded up: nothing ends earlier than the caller requested. */
export function formatMs(ms: number): string {
  return String(Math.max(0, Math.ceil(ms)));
}

/** The text as one line. Equal texts have equal lines and different ones different lines, so lines can be compared. */
export function escapeLine(text: string): string {
  return text.includes("\\") || text.includes("\n")
    ? text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")
    : text;
}

export function unescapeLine(line: string): string {
  return line.replace(/\\(.)/gs, (_, escaped) => (escaped === "n" ? "\n" : escaped));
}
