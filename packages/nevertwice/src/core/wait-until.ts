/**
 * Platforms that end a request's work with its response, or with its client's disconnect, have a function `waitUntil` that
 * postpones that end for some time: about 30 seconds on Cloudflare and Vercel.
 */
import { harmless } from "./observer.ts";

export type WaitUntil = (work: Promise<unknown>) => unknown;

/** Keeps the request alive until `work` has settled, if the platform was given a way to. What `waitUntil` throws is ignored. */
export function carry(waitUntil: WaitUntil | undefined, work: Promise<unknown>): void {
  if (waitUntil === undefined) return;
  const settled = work.then(
    () => {},
    () => {},
  );
  harmless(() => waitUntil(settled));
}

/** Workers, Vercel and Next hand a context with a `waitUntil` to a handler, besides the request. */
export function findWaitUntil(handed: readonly unknown[]): WaitUntil | undefined {
  for (const one of handed) {
    const context = one as { waitUntil?: unknown } | null | undefined;
    if (typeof context === "object" && typeof context?.waitUntil === "function")
      return (work) => (context as { waitUntil: WaitUntil }).waitUntil(work);
  }
  return undefined;
}
