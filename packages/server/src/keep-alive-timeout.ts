/** Longer than the idle timeout of common load balancers (60 s), so that they never reuse a connection that is closed here. */
export const KEEP_ALIVE_TIMEOUT_MS = 72_000;
