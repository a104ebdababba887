/** Replays that the application computes from its current state, and what a retry gets if that fails. */
import { toUtf8 } from "#platform";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, oneOf } from "../core/option-checks.ts";
import type { HeaderLine, HttpReply } from "./http-message.ts";
import { type CurrentResponse, type KeptResponse, ownContent, toLines } from "./replay.ts";

/** Options of `current`. */
export interface CurrentOptions {
  /**
   * What a retry gets if the function throws or its response cannot be sent. `refuse`: the error `not-kept`, which the client may retry.
   * `kept`: the first response. Default: `refuse`.
   */
  readonly onError?: "refuse" | "kept" | undefined;
}

/** A replay that the application computes from the current state. */
export interface Current<Native> extends CurrentOptions {
  /** Makes the answer for a duplicate from the current state. */
  readonly current: (
    request: Native,
    kept: {
      /** The status of the first answer. */
      readonly status: number;
      /** The headers of the first answer that are replayed. */
      readonly headers: readonly HeaderLine[];
      /** The body of the first answer. */
      readonly body: Uint8Array;
    },
  ) => CurrentResponse | PromiseLike<CurrentResponse>;
}

/**
 * `replay: current(fn)`: `fn` answers a duplicate from the current state.
 * @throws `options-invalid`
 */
export function current<Native>(
  read: Current<Native>["current"],
  options: CurrentOptions = {},
): Current<Native> {
  checkOptions(options, { onError: oneOf("refuse", "kept") });
  return { ...options, current: read };
}

/**
 * Returns the current response, marked as a replay; undefined if that failed and the kept one is wanted. Throws `not-kept` if it
 * failed otherwise. The first failure is a warning of the process, since nobody else sees it.
 */
export function createCurrentReply<Native>(
  { current: read, onError = "refuse" }: Current<Native>,
  replayedHeader: string,
): (request: Native, kept: KeptResponse) => Promise<HttpReply | undefined> {
  let isWarned = false;

  async function currentReply(request: Native, [status, flat, body]: KeptResponse): Promise<HttpReply> {
    const lines = toLines(flat);
    const bytes = typeof body === "string" ? toUtf8(body) : (body ?? new Uint8Array());
    const now = await read(request, { status, headers: lines, body: bytes });
    const { headers, body: content } = ownContent(now);
    headers.push(["cache-control", "no-store"], [replayedHeader, "true"]);
    return { kind: "reply", status: now.status ?? status, headers, body: content };
  }

  return async (request, kept) => {
    try {
      return await currentReply(request, kept);
    } catch (cause) {
      if (!isWarned) warn(cause, onError);
      isWarned = true;
      if (onError === "kept") return undefined;
      const error = new NevertwiceError(
        "not-kept",
        "the request was carried out before, and is not repeated. Its current state could not be read; try again.",
        { cause },
      );
      // The same request may find the state readable, and never runs the work again.
      throw Object.assign(error, { retryable: true });
    }
  };
}

function warn(cause: unknown, onError: "refuse" | "kept"): void {
  const detail = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
  // Not every runtime has `process.emitWarning`.
  globalThis.process?.emitWarning?.(
    `the function of replay: current(fn) failed, so the retry gets ${onError === "kept" ? "the first response" : "an error"}. This warning is emitted once for each layer.`,
    { type: "NevertwiceWarning", code: "NEVERTWICE_CURRENT_FAILED", detail },
  );
}
