/**
 * OASIS Repeatable Requests 1.0, as used by Azure's guidelines: a request carries an id and the time when it was first
 * sent, or neither. A request that was first sent before the window is refused, since its record may be gone and it is no
 * longer known whether it ran. So an expired id never runs again.
 */
import { type ErrorCode, NevertwiceError } from "../../core/errors.ts";
import { parseKeyHeader } from "../key-header.ts";
import type { AddedHeaders, KeyContext, KeyFinder, KeyReading, Profile, RequestHead } from "../profile.ts";

const FIRST_SENT = "Repeatability-First-Sent";
const RESULT = "Repeatability-Result";

/** The largest accepted difference between the clocks of client, service and store. */
const CLOCK_SKEW_MS = 60_000;

const IMF_FIXDATE =
  "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$";

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);

const REQUEST_ID: KeyFinder = {
  carrier: (header) => `the header ${header}`,
  read: readRequestId,
  onOtherMethod(source, context) {
    if (SAFE_METHODS.has(source.method)) return undefined;
    const reading = readRequestId(source, context);
    if (reading === undefined || reading === "exempt") return undefined;
    return "refused" in reading ? reading : refused("this operation cannot be repeated safely.", 501);
  },
  refusals: [
    { code: "expired", status: 412 },
    { code: "key-invalid", status: 501 },
  ],
  parameters: (header, key = {}, isRequired = false) => [
    { name: header, required: isRequired, schema: key },
    { name: FIRST_SENT, required: isRequired, schema: { type: "string", pattern: IMF_FIXDATE } },
  ],
};

function readRequestId(source: RequestHead, { header, nowMs, retentionMs }: KeyContext): KeyReading {
  const carried = source.header(header.toLowerCase());
  const firstSent = source.header(FIRST_SENT.toLowerCase());
  if (carried === undefined && firstSent === undefined) return undefined;
  if (carried === undefined || firstSent === undefined)
    return refused(`one of the headers ${header} and ${FIRST_SENT} is missing; send both or neither.`);
  const parsed = parseKeyHeader(carried, { strict: false });
  if (!("key" in parsed)) return refused(`the header ${header}: ${parsed.problem}`);
  const sentMs = imfFixdate(firstSent.trim());
  if (sentMs === undefined)
    return refused(`the header ${FIRST_SENT} must be a date such as Sun, 06 Nov 1994 08:49:37 GMT.`);
  if (isBatch(source.target))
    return refused("a batch is not repeatable; send the headers with its individual requests.");
  // A time in the future would still be within the window after the record has been purged.
  if (sentMs < nowMs - retentionMs || sentMs > nowMs + CLOCK_SKEW_MS) return outsideWindow(retentionMs);
  // Ids are UUIDs, which are compared without regard to case.
  return { key: parsed.key.toLowerCase() };
}

/** Undefined unless the platform writes the same instant as exactly this text. */
function imfFixdate(text: string): number | undefined {
  const ms = Date.parse(text);
  return Number.isNaN(ms) || new Date(ms).toUTCString() !== text ? undefined : ms;
}

function isBatch(target: string): boolean {
  return /\/\$batch$/.test(target.split("?", 1)[0] ?? "");
}

function refused(problem: string, status = 400): { refused: NevertwiceError; status: number } {
  return { refused: new NevertwiceError("key-invalid", problem), status };
}

function outsideWindow(retentionMs: number): KeyReading {
  const detail = `${FIRST_SENT} is not within the last ${retentionMs / 1_000} seconds, so it is no longer known whether this request ran.`;
  return { refused: new NevertwiceError("expired", detail), status: 412 };
}

/** Problems after which the request may have been carried out. */
const MAY_HAVE_RUN: ReadonlySet<string> = new Set<ErrorCode>([
  "pending",
  "already-done",
  "unknown",
  "lease-lost",
  "not-kept",
  "internal-error",
  "upstream-lost",
]);

const RESULT_HEADER: AddedHeaders = {
  lines(answer) {
    const isAccepted = answer === "first" || answer === "replay" || MAY_HAVE_RUN.has(answer);
    return [[RESULT.toLowerCase(), isAccepted ? "accepted" : "rejected"]];
  },
  describe: () => ({
    [RESULT]: {
      description: "Whether the request was accepted. If it was rejected, nothing was done.",
      schema: { enum: ["accepted", "rejected"] },
    },
  }),
};

export const OASIS: Profile = {
  name: "oasis",
  options: { methods: ["POST", "PUT", "PATCH", "DELETE"], header: "Repeatability-Request-ID" },
  problems: { status: { conflict: 400, expired: 412 } },
  operation: "oasis",
  // Azure's guidelines require a window of at least five minutes.
  retention: { leastMs: 300_000 },
  // The client's clock may be ahead of ours, and ours may be ahead of the store's.
  graceMs: 2 * CLOCK_SKEW_MS,
  key: REQUEST_ID,
  added: RESULT_HEADER,
};
