/**
 * A client that sends a key with a request that no rule matches believes that a retry is safe, but it is not. The
 * request passes through unchanged, and the process emits a warning, once for each method.
 */
import type { IncomingMessage } from "node:http";

/** Methods that change something. With others a key has no meaning. */
const CHANGING = ["POST", "PUT", "PATCH", "DELETE"];

const MAX_PATH_LENGTH = 200;

export function createIgnoredKeyWarning(): (req: IncomingMessage) => void {
  const unwarned = new Set(CHANGING);
  return ({ method = "", url = "", headers }) => {
    if (headers["idempotency-key"] === undefined || !unwarned.delete(method)) return;
    // Without the query, which may contain secrets.
    const path = JSON.stringify(url.split("?")[0]?.slice(0, MAX_PATH_LENGTH));
    process.emitWarning(
      `a request with an Idempotency-Key (${method} ${path}) matches no rule of the gateway, so its key was ignored. Add the method to the "methods" of a rule if such requests must run once. This warning appears once for ${method}.`,
      { type: "NevertwiceWarning", code: "NEVERTWICE_KEY_IGNORED" },
    );
  };
}
