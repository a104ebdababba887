/** Pushes one line of JSON into a network and retries it until it is settled or the tries are used up. */
import { setTimeout } from "node:timers/promises";
import type { Pipeline, PushOutcome } from "nevertwice/pipeline";

/** The pause before the second try of a line; twice as long before the third, and so on. */
const PAUSE_MS = 200;

/** How often to retry a key that another attempt holds: its work may end long before its lease. */
const POLL_MS = 500;

/** Most attempts end sooner; if one does not, the user is informed. */
const QUIET_MS = 1_000;

export interface LinePush {
  readonly pipeline: Pipeline;
  readonly port: string;
  /** The most tries. Waiting for the lease of another attempt is part of one try. */
  readonly tries: number;
  readonly signal: AbortSignal;
  /** Called when the line has waited for a while for a key; `leaseMs` is what is left of its lease. */
  readonly onWaiting: (leaseMs: number) => void;
}

export type LineOutcome = { readonly error: string } | ShownOutcome;

interface ShownOutcome extends Pick<PushOutcome, "id" | "verdict" | "isDuplicate"> {
  readonly failures: readonly {
    readonly node: string;
    readonly phase: string;
    readonly reason: string;
    readonly message: string;
  }[];
}

export async function pushLine(pushing: LinePush, text: string): Promise<LineOutcome> {
  let payload: unknown;
  try {
    payload = JSON.parse(text);
  } catch (error) {
    return { error: `not valid JSON: ${errorMessage(error)}` };
  }
  const { tries, signal } = pushing;
  let outcome = await pushOnce(pushing, payload);
  // No broker redelivers a line, so it is retried here, under its first id.
  for (let tried = 1; outcome.verdict === "later" && tried < tries && !signal.aborted; tried++) {
    await pause(PAUSE_MS * tried, signal);
    if (!signal.aborted) outcome = await pushOnce(pushing, payload, outcome.id);
  }
  return toShownOutcome(outcome);
}

/** Pushes the line. While another attempt holds its key, tries again until the lease that was seen first has ended. */
async function pushOnce(pushing: LinePush, payload: unknown, id?: string): Promise<PushOutcome> {
  const { pipeline, port, signal, onWaiting } = pushing;
  let outcome = await pipeline.push(port, payload, id === undefined ? {} : { id });
  const startedAt = performance.now();
  const waitMs = leaseLeft(outcome) ?? 0;
  for (;;) {
    const waitedMs = performance.now() - startedAt;
    const leaseMs = leaseLeft(outcome);
    if (leaseMs === undefined || waitedMs > waitMs || signal.aborted) return outcome;
    if (waitedMs > QUIET_MS) onWaiting(leaseMs);
    await pause(Math.min(POLL_MS, leaseMs + 1), signal);
    if (!signal.aborted) outcome = await pipeline.push(port, payload, { id: outcome.id });
  }
}

/** How long the leases of other attempts are valid; undefined if something else keeps the message from being settled. */
function leaseLeft({ verdict, failures }: PushOutcome): number | undefined {
  const later = failures.filter((failure) => failure.verdict === "later");
  if (verdict !== "later" || later.some(({ afterMs }) => afterMs === undefined)) return undefined;
  return Math.max(...later.map(({ afterMs = 0 }) => afterMs));
}

/** Returns early, without an error, when the signal fires. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal }).catch(() => {});
}

function toShownOutcome({ id, verdict, isDuplicate, failures }: PushOutcome): ShownOutcome {
  return {
    id,
    verdict,
    isDuplicate,
    failures: failures.map(({ node, phase, reason, error }) => ({
      node,
      phase,
      reason,
      message: errorMessage(error),
    })),
  };
}

/** `line 3: reject, price: schema-mismatch (this is no Order@1)`. */
export function lineText(line: number, outcome: LineOutcome): string {
  if ("error" in outcome) return `line ${line}: ${outcome.error}`;
  const reasons = outcome.failures.map(
    ({ node, reason, message }) => `${node}: ${reason}${message === "" ? "" : ` (${message})`}`,
  );
  return `line ${line}: ${[outcome.isDuplicate ? "already done" : outcome.verdict, ...reasons].join(", ")}`;
}

export function errorMessage(error: unknown): string {
  if (error === undefined) return "";
  return error instanceof Error ? error.message : String(error);
}
