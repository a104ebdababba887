/** The outcome of one step as the record keeps it, within the room that the steps of a record share. */
import { utf8Bytes } from "./bytes.ts";
import { describeUnkeepable } from "./describe-unkeepable.ts";
import { type FinishedStep, stepLine } from "./kept-steps.ts";
import { encodeOutcome, notKept } from "./outcome.ts";
import { warnOnce } from "./warning.ts";

/** What the record holds of a step besides its line: the time, and what sealing adds to the outcome. */
const STEP_OVERHEAD_BYTES = 128;

/** The value for the work, and the text for the record. `detail` says why the text has no value. */
export interface EncodedStep {
  readonly value: unknown;
  readonly text: string;
  readonly detail?: string;
}

/** `room`: how many bytes the step may have. Never throws: a value that cannot be kept has a text too. */
export function encodeStep(step: {
  readonly name: string;
  readonly value: unknown;
  readonly room: number;
  readonly operation: string;
}): EncodedStep {
  const { name, value, room, operation } = step;
  const encoded = encodeOutcome("value", value, Math.max(0, room));
  const reason = encoded.kept ? "too-large" : encoded.reason;
  if (encoded.kept) {
    const bytes = stepBytes({ name, outcome: encoded.text });
    if (bytes <= room) return { value: encoded.content, text: encoded.text };
  } else if (encoded.reason === "not-encodable") {
    warnOnce(
      "NEVERTWICE_NOT_KEPT",
      `operation ${JSON.stringify(operation)}, step ${JSON.stringify(name)}: the value of the step cannot be kept: ${describeUnkeepable(value)}. A later attempt cannot continue after this step. Return plain data.`,
      `${operation}/${name}`,
    );
  }
  const detail = encoded.kept ? "the steps of this record have reached maxOutcomeBytes" : encoded.detail;
  return { value, text: notKept(reason), detail };
}

export function stepBytes(step: FinishedStep): number {
  const { start, end } = stepLine(step);
  return utf8Bytes(start) + utf8Bytes(end) + STEP_OVERHEAD_BYTES;
}
