/** What the store is told when an attempt ends: the outcome of its work, encoded, or that it is given up. */
import { describeUnkeepable } from "./describe-unkeepable.ts";
import { describeType } from "./identity.ts";
import { harmless } from "./observer.ts";
import { encodeOutcome, type KeptOutcome, keepValue, notKept } from "./outcome.ts";
import type { Decision } from "./policy.ts";
import type { KeepOptions } from "./request.ts";
import type { AbandonAs } from "./store.ts";

/** How an attempt ended, and so what the store is told. */
export type Ending =
  | {
      readonly kind: "complete";
      /** The outcome to store: text, unless the limits say that the store keeps values. */
      readonly outcome: KeptOutcome;
      /** Why the value was not stored, if `outcome` only says that the work is done. */
      readonly notKept: string | undefined;
      /** Why duplicates cannot get what the work returned, for a warning. */
      readonly unreplayable?: string | undefined;
      readonly content: { readonly value: unknown } | { readonly thrown: unknown };
    }
  | {
      readonly kind: "abandon";
      readonly as: AbandonAs;
      readonly thrown: unknown;
      /** The work returned this value, which is not kept. */
      readonly returned?: { readonly value: unknown };
    };

/** The limit of a stored outcome, and the origin that is stored with it. */
export interface KeepLimits {
  readonly maxOutcomeBytes: number;
  readonly origin?: string | undefined;
  /** The store keeps plain values as they are. */
  readonly keepsValues?: boolean | undefined;
}

/** The work returned. If its value cannot be stored the key is completed without it: the work is done and must not run again. */
export function endingFromValue(
  value: unknown,
  limits: KeepLimits,
  keep: KeepOptions<unknown, unknown>,
): Ending {
  const { shorten, encode, decode } = keep;
  if (encode !== undefined && decode !== undefined) return codedEnding(value, limits, encode, decode);
  const ending = completion("value", value, limits);
  if (ending.notKept === undefined) return ending;
  const outcome = shorten && shortened(value, shorten, limits);
  if (outcome !== undefined) return { ...ending, outcome };
  return ending.outcome === NOT_ENCODABLE ? { ...ending, unreplayable: describeUnkeepable(value) } : ending;
}

const NOT_ENCODABLE = notKept("not-encodable");

/** Stores what `encode` returns. Whatever fails here, the work is done, and its caller gets what it returned. */
function codedEnding(
  value: unknown,
  limits: KeepLimits,
  encode: (value: unknown) => unknown,
  decode: (kept: unknown) => unknown,
): Ending {
  const failed = (unreplayable: string) => {
    const content = { value };
    return {
      kind: "complete",
      outcome: NOT_ENCODABLE,
      notKept: unreplayable,
      unreplayable,
      content,
    } as const;
  };
  let kept: unknown;
  try {
    kept = encode(value);
  } catch (error) {
    return failed(`encode threw: ${errorMessage(error)}`);
  }
  const ending = completion("value", kept, limits);
  if (ending.notKept !== undefined) {
    const isEncodable = ending.outcome !== NOT_ENCODABLE;
    const unreplayable = isEncodable ? undefined : `in what encode returned, ${describeUnkeepable(kept)}`;
    return { ...ending, unreplayable, content: { value } };
  }
  try {
    return { ...ending, content: { value: decode("value" in ending.content ? ending.content.value : kept) } };
  } catch (error) {
    return { ...ending, unreplayable: `decode threw: ${errorMessage(error)}`, content: { value } };
  }
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : describeType(error);
}

/** The encoded result of `shorten`; undefined if that cannot be stored either. */
function shortened(
  value: unknown,
  shorten: (value: unknown) => unknown,
  { maxOutcomeBytes, origin }: KeepLimits,
): string | undefined {
  try {
    const encoded = encodeOutcome("value", shorten(value), maxOutcomeBytes, origin);
    return encoded.kept ? encoded.text : undefined;
  } catch {
    // `shorten` threw. The record still says that the work is done.
    return undefined;
  }
}

/** The same for work that may say by `keepIf` that its value is not kept. A transaction is committed with its value, so it cannot. */
export function endingFromReturn(
  value: unknown,
  limits: KeepLimits,
  keep: KeepOptions<unknown, unknown>,
): Ending {
  const { keepIf } = keep;
  // A function that throws, or answers anything but false, keeps the value: the work is done.
  if (keepIf !== undefined && harmless(() => keepIf(value)) === false)
    return { kind: "abandon", as: "released", thrown: undefined, returned: { value } };
  return endingFromValue(value, limits, keep);
}

/** An operator or `reconcile` decided how an earlier attempt ended. Anything else than a decision leaves the outcome unknown. */
export function endingFromDecision(
  decision: Decision | { readonly status: "unknown" },
  maxOutcomeBytes: number,
): Ending {
  switch (decision?.status) {
    case "done":
      return completion("value", decision.value, { maxOutcomeBytes });
    case "failed":
      return completion("thrown", decision.error, { maxOutcomeBytes });
    case "not-done":
      return { kind: "abandon", as: "released", thrown: undefined };
    default:
      return { kind: "abandon", as: "unrun", thrown: undefined };
  }
}

export function completion(
  kind: "value" | "thrown",
  content: unknown,
  { maxOutcomeBytes, origin, keepsValues }: KeepLimits,
): Ending & { kind: "complete" } {
  const kept = keepsValues && kind === "value" ? keepValue(content, maxOutcomeBytes, origin) : undefined;
  if (kept !== undefined)
    return { kind: "complete", outcome: kept, notKept: undefined, content: { value: kept.decode().value } };
  const encoded = encodeOutcome(kind, content, maxOutcomeBytes, origin);
  // The first caller gets the decoded value, exactly as a replay will.
  const given = encoded.kept ? encoded.content : content;
  return {
    kind: "complete",
    outcome: encoded.kept ? encoded.text : notKept(encoded.reason),
    notKept: encoded.kept ? undefined : encoded.detail,
    content: kind === "value" ? { value: given } : { thrown: copyStack(given, content) },
  };
}

/** Gives the first caller's copy of a remembered error the stack of the original. */
function copyStack(copy: unknown, original: unknown): unknown {
  if (copy !== original && copy instanceof Error && original instanceof Error) {
    Object.defineProperty(copy, "stack", { value: original.stack, configurable: true, writable: true });
  }
  return copy;
}
