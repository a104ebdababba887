/** The built dashboard, read once: its page, and the files that the page names by their hash. */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { gzipSync } from "node:zlib";

export interface Asset {
  readonly type: string;
  readonly bytes: Buffer;
  /** Undefined where it would be no smaller. */
  readonly gzipped: Buffer | undefined;
}

export interface Dashboard {
  readonly page: Asset;
  /** By name, without the folder. */
  readonly files: ReadonlyMap<string, Asset>;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

const PACKAGE = dirname(createRequire(import.meta.url).resolve("@nevertwice/server/package.json"));

/** Undefined if it was not built. */
export function readDashboard(folder = join(PACKAGE, "dist", "dashboard")): Dashboard | undefined {
  try {
    const names = readdirSync(join(folder, "assets"));
    const files = names.map((name) => [name, assetOf(join(folder, "assets", name))] as const);
    return { page: assetOf(join(folder, "index.html")), files: new Map(files) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function assetOf(path: string): Asset {
  const bytes = readFileSync(path);
  const gzipped = gzipSync(bytes);
  return {
    type: TYPES[extname(path)] ?? "application/octet-stream",
    bytes,
    gzipped: gzipped.length < bytes.length ? gzipped : undefined,
  };
}
