/** The recorded history of one key: each call of a store, when it was sent, and what came back. */
import type { ClaimAnswer, RecordState } from "nevertwice";

/** A call about one key, without the parts that do not change what a store may answer. */
export type KeyCall =
  | {
      readonly kind: "claim";
      readonly token: string;
      readonly fingerprint?: string | undefined;
      readonly leaseMs: number;
      readonly retentionMs: number;
      readonly hold: boolean;
      readonly takeover?: number | undefined;
    }
  | {
      readonly kind: "complete";
      readonly token: string;
      readonly outcome: string;
      readonly retentionMs: number;
    }
  | { readonly kind: "abandon"; readonly token: string; readonly as: "released" | "unknown" | "unrun" }
  | { readonly kind: "renew"; readonly token: string; readonly leaseMs: number }
  | { readonly kind: "forget"; readonly fence: number; readonly reopen: boolean }
  | { readonly kind: "read" };

/** What a read found of a record. */
export interface SeenRecord {
  readonly state: RecordState;
  readonly token: string;
  readonly fence: number;
  readonly number: number;
  readonly hold: boolean;
  /** Absent in the JSON of a note if the record has none. */
  readonly fingerprint?: string | undefined;
  readonly outcome?: string | undefined;
}

/** The answer of a claim, of a step that is true or false, or of a read; null: a read found no record. */
export type KeyAnswer = ClaimAnswer | boolean | SeenRecord | null;

/** Times are microseconds of the machine's monotonic clock, so those of different processes can be compared. */
export interface KeyOperation {
  /** The process that sent it, for reports. */
  readonly by: string;
  readonly call: KeyCall;
  readonly sentAt: number;
  /** Infinity if no answer came: then the call may have taken effect at any time after it was sent, or never. */
  readonly answeredAt: number;
  /** Undefined if no answer came. */
  readonly answer: KeyAnswer | undefined;
}

/** Whether a driver may have sent a call again that waited for its answer between these moments. */
export type MayBeRepeated = (sentAt: number, answeredAt: number) => boolean;

/**
 * The history as a driver makes it that repeats calls whose connection broke: what was sent first may have taken effect too, and
 * its answer was lost.
 */
export function withRepetitions(
  history: readonly KeyOperation[],
  mayBeRepeated: MayBeRepeated,
): readonly KeyOperation[] {
  const repeated = history.flatMap((operation) => {
    const { call, answer, sentAt, answeredAt } = operation;
    if (call.kind === "read" || answer === undefined || !mayBeRepeated(sentAt, answeredAt)) return [];
    return [{ ...operation, answer: undefined, answeredAt: Number.POSITIVE_INFINITY }];
  });
  return [...history, ...repeated];
}

/** How an operation reads in a report. */
export function describeOperation({ by, call, sentAt, answeredAt, answer }: KeyOperation, from = 0): string {
  const { kind, ...terms } = call;
  const at = (us: number) => `${((us - from) / 1_000).toFixed(3)} ms`;
  const until = answeredAt === Number.POSITIVE_INFINITY ? "never answered" : `answered at ${at(answeredAt)}`;
  const said = answer === undefined ? "" : `: ${JSON.stringify(answer)}`;
  return `${by} sent ${kind} ${JSON.stringify(terms)} at ${at(sentAt)}, ${until}${said}`;
}
