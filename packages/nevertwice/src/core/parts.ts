/**
 * The parts of an identity as text, stored with the record. It is a JSON array: that escapes U+0000, which some databases
 * refuse. It begins with namespace and scope, so that a list can select by its beginning.
 */
import type { Parts } from "./store.ts";

export function partsText({ namespace, scope, operation, key }: Parts): string {
  return JSON.stringify([namespace, scope, operation, key]);
}

/** The text that the parts of every record of a namespace, or of one scope in it, begin with. */
export function partsStart(namespace: string, scope: string | undefined): string {
  const start = JSON.stringify(scope === undefined ? [namespace] : [namespace, scope]);
  return `${start.slice(0, -1)},`;
}

export function partsFrom(text: string): Parts {
  const [namespace, scope, operation, key] = JSON.parse(text) as [string, string, string, string];
  return { namespace, scope, operation, key };
}
