/** Reads the built dashboard into memory: its page, and the files that the page refers to by their hash. */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { gzipSync } from "node:zlib";

export interface Asset {
  readonly type: string;
  readonly bytes: Buffer;
  /** Compresses on the first call, so that a start does not wait for it. Undefined if that does not make the file smaller. */
  gzipped(): Buffer | undefined;
}

export interface Dashboard {
  readonly page: Asset;
  /** By file name, without the folder. */
  readonly files: ReadonlyMap<string, Asset>;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

const PACKAGE = dirname(createRequire(import.meta.url).resolve("@nevertwice/server/package.json"));

/** Undefined if the dashboard was not built. */
export function readDashboard(folder = join(PACKAGE, "dist", "dashboard")): Dashboard | undefined {
  try {
    const names = readdirSync(join(folder, "assets"));
    const files = names.map((name) => [name, readAsset(join(folder, "assets", name))] as const);
    return { page: readAsset(join(folder, "index.html")), files: new Map(files) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function readAsset(path: string): Asset {
  const bytes = readFileSync(path);
  let gzipped: Buffer | undefined;
  return {
    type: TYPES[extname(path)] ?? "application/octet-stream",
    bytes,
    gzipped() {
      gzipped ??= gzipSync(bytes);
      return gzipped.length < bytes.length ? gzipped : undefined;
    },
  };
}
