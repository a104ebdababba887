/** The version of the package. */
import { createRequire } from "node:module";

const manifest = createRequire(import.meta.url)("@nevertwice/server/package.json") as {
  readonly version: string;
};

export const VERSION = manifest.version;
