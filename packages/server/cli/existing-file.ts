/**
 * SQLite creates a file that does not exist. A command that only reads, or changes what exists, must not: after a typing
 * error in the path it would print that there is nothing, and leave an empty database behind.
 */
import { existsSync } from "node:fs";
import { UsageError } from "./command.ts";

interface StoreUrls {
  readonly store: string;
  readonly holdsStore?: string | undefined;
  readonly outboxStore?: string | undefined;
}

/** Throws `UsageError` if one of the stores is a SQLite file that does not exist. */
export function requireExistingFiles({ store, holdsStore, outboxStore }: StoreUrls): void {
  for (const url of [store, holdsStore, outboxStore]) if (url !== undefined) requireExistingFile(url);
}

export function requireExistingFile(url: string): void {
  const file = sqliteFile(url);
  if (file === undefined || existsSync(file)) return;
  throw new UsageError(
    `there is no SQLite file ${JSON.stringify(file)}, and this command does not create one: correct the URL of the store, or create the file with \`nevertwice migrate ${url}\`.`,
  );
}

/** The path in `sqlite:./file.db?synchronous=full`; undefined for other URLs. */
export function sqliteFile(url: string): string | undefined {
  const path = /^sqlite:(?:\/\/(?=\/))?([^?]+)/.exec(url)?.[1];
  return path === undefined ? undefined : decodeURIComponent(path);
}
