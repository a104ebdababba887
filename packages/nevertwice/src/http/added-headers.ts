/** The header lines that the layer adds to responses: those of the profile, and those that let browsers use the key. */
import type { ErrorCode } from "../core/errors.ts";
import type { HeaderLine, HttpRequest } from "./http-message.ts";
import { listKeyHeaders } from "./profile.ts";
import type { ResolvedHttpOptions } from "./resolved-options.ts";

/** The kind of a response: the handler's own, a replay, or a problem with this code. */
export type AnswerKind = "first" | "replay" | ErrorCode;

export interface AddedLines {
  /** For the response to a request with a key. */
  forAnswer(kind: AnswerKind, request: HttpRequest<unknown>): readonly HeaderLine[];
  /** For a request that passes through. Only a CORS preflight gets any. */
  forPassed(request: HttpRequest<unknown>): readonly HeaderLine[];
}

const NONE: readonly HeaderLine[] = [];

export function createAddedLines<Native>(options: ResolvedHttpOptions<Native>): AddedLines {
  const { profile, header, replayedHeader, cors, keyField } = options;
  const keyHeader = header.toLowerCase();
  const described = Object.keys(profile.added?.describe(header) ?? {});
  const exposed: HeaderLine = [
    "access-control-expose-headers",
    [replayedHeader, "Retry-After", ...described].join(", "),
  ];
  const allowed: HeaderLine = ["access-control-allow-headers", listKeyHeaders(profile, header).join(", ")];
  return {
    forAnswer(kind, request) {
      const lines = profile.added?.lines(kind, header, request.header(keyHeader)) ?? NONE;
      return cors && request.header("origin") !== undefined ? [...lines, exposed] : lines;
    },
    forPassed(request) {
      const isPreflight =
        cors &&
        keyField === undefined &&
        request.method === "OPTIONS" &&
        request.header("access-control-request-method") !== undefined;
      return isPreflight ? [allowed] : NONE;
    },
  };
}
