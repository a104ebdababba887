/** The guard of the server's own records: access tokens and sessions. They are kept for good, and nothing purges them. */
import { createGuard, type Guard, type Store } from "nevertwice";
import { LONGEST_DURATION_MS } from "./longest-duration.ts";

/** The namespace of the server's own records. Users cannot choose it. */
export const SERVER_NAMESPACE = "nevertwice:server";

/** Namespaces that begin like this are for records of the server. */
export function isReservedNamespace(namespace: string): boolean {
  return namespace.startsWith("nevertwice:");
}

export function createServerGuard(store: Store, drainMs: number | undefined): Guard {
  return createGuard({
    store,
    namespace: SERVER_NAMESPACE,
    retentionMs: LONGEST_DURATION_MS,
    purgeEveryMs: 0,
    drainMs,
  });
}
