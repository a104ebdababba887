/**
 * What a key is a key of, as text beside its record. A JSON array: it escapes U+0000, which some databases refuse, and
 * its beginning says whose record it is, so that a list can tell without reading all of it.
 */
import type { Parts } from "./store.ts";

export function partsText({ namespace, scope, operation, key }: Parts): string {
  return JSON.stringify([namespace, scope, operation, key]);
}

/** How the parts of every record of a namespace, or of one scope in it, begin. */
export function partsStart(namespace: string, scope: string | undefined): string {
  const start = JSON.stringify(scope === undefined ? [namespace] : [namespace, scope]);
  return `${start.slice(0, -1)},`;
}

export function partsFrom(text: string): Parts {
  const [namespace, scope, operation, key] = JSON.parse(text) as [string, string, string, string];
  return { namespace, scope, operation, key };
}
