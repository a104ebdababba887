/**
 * The parts of an identity as text, stored with the record. It is a JSON array: that escapes U+0000, which some databases
 * refuse. It begins with namespace and scope, so that a list can select by its beginning.
 */
import type { Parts } from "./store.ts";

export function partsText({ namespace, scope, operation, key }: Parts): string {
  return JSON.stringify([namespace, scope, operation, key]);
}

/** The text that the parts of every record of a namespace, or of one scope in it, begin with. */
export function partsStart(namespace: string, scope?: string | undefined): string {
  const start = JSON.stringify(scope === undefined ? [namespace] : [namespace, scope]);
  return `${start.slice(0, -1)},"`;
}

/**
 * What the parts of a namespace's records begin with, up to the quote of the first `","`. JSON escapes quotes, so no two
 * namespaces have the same beginning, also where a namespace itself ends like that separator.
 */
export function namespaceStart(namespace: string): string {
  const start = partsStart(namespace);
  return start.slice(0, start.indexOf('","') + 1);
}

/**
 * The namespace of parts that begin like this, up to the quote of the first `","`. A namespace that ends like that separator is cut: two
 * characters of it are missing. Undefined for text that `partsText` did not write.
 */
export function namespaceFrom(start: string): string | undefined {
  for (const text of [`${start}]`, `${start},"]`]) {
    try {
      const [namespace] = JSON.parse(text) as readonly unknown[];
      if (typeof namespace === "string") return namespace;
    } catch {
      // It was cut, or damaged.
    }
  }
  return undefined;
}

export function partsFrom(text: string): Parts {
  const [namespace, scope, operation, key] = JSON.parse(text) as [string, string, string, string];
  return { namespace, scope, operation, key };
}
