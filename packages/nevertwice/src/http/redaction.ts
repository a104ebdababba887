/** The response to store, where the application stores another body than it sends. */
import { toUtf8 } from "#platform";
import type { HttpResponse } from "./http-message.ts";
import { toJudgedResponse } from "./keep-decision.ts";
import type { HttpOptions } from "./options.ts";
import { ABOUT_THE_BODY } from "./replay.ts";
import { isThenable } from "./thenable.ts";

/** Headers about the body that was sent, which a redacted one does not have. */
const ABOUT_THE_SENT_BODY = new Set([...ABOUT_THE_BODY, "etag"]);

/**
 * The response to store: the option `redact` may replace the body. If it throws or returns a promise, no body is stored: what
 * must not be stored is not stored by a mistake.
 */
export function redacted<Native>(
  response: HttpResponse,
  redact: HttpOptions<Native>["redact"],
  native: Native,
): HttpResponse {
  if (redact === undefined || response.body === undefined) return response;
  const stored = redactedBody(() => redact(toJudgedResponse(response), native));
  if (stored === undefined) return response;
  const headers = response.headers.filter(([name]) => !ABOUT_THE_SENT_BODY.has(name.toLowerCase()));
  return { ...response, headers, body: stored ?? undefined };
}

function redactedBody(redact: () => unknown): Uint8Array | null | undefined {
  try {
    const body = redact();
    if (body === undefined || body === null || body instanceof Uint8Array) return body;
    if (isThenable(body)) {
      Promise.resolve(body).catch(() => {});
      return null;
    }
    return toUtf8(typeof body === "string" ? body : JSON.stringify(body));
  } catch {
    return null;
  }
}
