/**
 * Warns about keys on methods that `methods` does not name. Such a request runs as if it had no key, so a retry is not
 * safe although its client believes so. The process emits one warning for each method.
 */
import type { HttpRequest } from "./http-message.ts";

/** Methods that change something. On other methods a key has no meaning, and is ignored without a warning. */
const CHANGING = ["POST", "PUT", "PATCH", "DELETE"];

const LONGEST_PATH = 200;

/** `carriers`: the headers that may carry a key. `methods`: the methods on which keys count. */
export function createIgnoredKeyWarning(
  carriers: readonly string[],
  methods: readonly string[],
): (request: HttpRequest<unknown>) => void {
  const names = carriers.map((name) => name.toLowerCase());
  const unwarned = new Set(CHANGING);
  return (request) => {
    const { method } = request;
    if (!unwarned.has(method) || !names.some((name) => request.header(name) !== undefined)) return;
    unwarned.delete(method);
    // Not every runtime has `process.emitWarning`.
    globalThis.process?.emitWarning?.(
      `the idempotency key of the request ${method} ${quotePath(request)} was ignored, because keys count on ${methods.join(", ")} only. Add ${method} to the option "methods" to protect such requests. This warning is emitted once for ${method}.`,
      { type: "NevertwiceWarning", code: "NEVERTWICE_KEY_IGNORED" },
    );
  };
}

/** Without the query, which may contain secrets. */
function quotePath({ target }: HttpRequest<unknown>): string {
  const [path = ""] = target.replace(/^https?:\/\/[^/?]+/, "").split("?");
  return JSON.stringify(path.slice(0, LONGEST_PATH));
}
