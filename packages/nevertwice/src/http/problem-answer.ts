/** Refusals for services that send them outside of the layer, such as a gateway whose upstream is lost. */
import { ERROR_CODES, type NevertwiceError } from "../core/errors.ts";
import type { HeaderLine } from "./http-message.ts";
import { HTTP_DEFAULTS } from "./options.ts";
import { type ProblemSettings, problemReply, retryLine } from "./problem.ts";
import type { ProfileName } from "./profile-names.ts";
import { PROFILES } from "./profiles.ts";

/** The response for an error, in one shape for all frameworks. */
export interface ProblemAnswer {
  /** The HTTP status. */
  readonly status: number;
  /** The header lines. */
  readonly headers: readonly HeaderLine[];
  /** The body: JSON. */
  readonly body: string;
}

/** Options of `problemAnswer`. */
export interface ProblemAnswerOptions extends Omit<ProblemSettings, "style"> {
  /** The profile of the route. Default: `ietf`. */
  readonly profile?: ProfileName | undefined;
  /** Reads a header of the request; some profiles repeat its key. The name is in lower case. */
  readonly header?: ((name: string) => string | undefined) | undefined;
}

/** The response that the layer would send for this error. An error may have another status than others of its code. */
export function problemAnswer(
  error: NevertwiceError,
  { profile: name = HTTP_DEFAULTS.profile, header: carried, ...settings }: ProblemAnswerOptions,
): ProblemAnswer {
  const profile = PROFILES[name];
  const header = profile.options.header ?? HTTP_DEFAULTS.header;
  const own = error.status === ERROR_CODES[error.code].status ? undefined : error.status;
  const { status, headers, body } = problemReply(error, { ...settings, style: profile.problems }, own);
  const added = profile.added?.lines(error.code, header, carried?.(header.toLowerCase())) ?? [];
  return { status, headers: [...headers, ...added], body: body as string };
}

/** The header line by which clients of this profile learn whether sending the same request again can help. */
export function retryAdvice(profile: ProfileName, canHelp: boolean): HeaderLine {
  return retryLine(PROFILES[profile].problems, canHelp);
}
