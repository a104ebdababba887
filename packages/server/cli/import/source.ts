/** Where keys are imported from: pages of entries as the other library stored them, in an order that can be continued. */

export interface SourceEntry {
  /** The whole key in the store of the other library. */
  readonly key: string;
  /** What it stored: text, an item of DynamoDB, or the columns of a CSV record. */
  readonly value: unknown;
  /** How long the entry is still valid, by the clock of its store where that has one. Null: it never expires. */
  readonly leftMs: number | null;
}

export interface SourcePage {
  readonly entries: readonly SourceEntry[];
  /** Pass it to `page` to continue; undefined on the last page. It stays valid in another process. */
  readonly next: string | undefined;
  /** How far the source has been read, in the unit of `total`. */
  readonly position: number;
}

export interface Source {
  /** The size of the source, for the progress bar; undefined if it is unknown. It may be an estimate. */
  readonly total: number | undefined;
  /** The names that a template may use, if the source has names of its own (the columns of a CSV file). */
  readonly columns?: readonly string[];
  page(after: string | undefined): Promise<SourcePage>;
  close(): Promise<void>;
}

/** How many entries are read, and then written, at once. */
export const PAGE = 500;

/** The scheme of a URL: `sqlite` for `sqlite:./a.db`; undefined for a plain file name. */
export function schemeIn(source: string): string | undefined {
  return /^([a-z][a-z+]+):/.exec(source)?.[1];
}

/** Returns a parameter of the URL and the URL without it. */
export function takeParameter(url: string, name: string): readonly [value: string | undefined, rest: string] {
  const [path = "", query = ""] = url.split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  const value = parameters.get(name) ?? undefined;
  parameters.delete(name);
  return [value, parameters.size === 0 ? path : `${path}?${parameters}`];
}
