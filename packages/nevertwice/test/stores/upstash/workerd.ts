/** Runs a Worker of this folder in workerd, Cloudflare's own runtime, with its store behind a REST door on this machine. */
import { fileURLToPath } from "node:url";
import { Miniflare } from "miniflare";
import { rolldown } from "rolldown";
import type { UpstashDoor } from "../../services/upstash-door.ts";
import type { UpstashEnv } from "./workers/env.ts";

const COMPATIBILITY_DATE = "2026-01-01";

/** As bundlers for Workers resolve a package. The platform is what the package's imports choose there. */
async function bundleWorker(name: string): Promise<string> {
  const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));
  const build = await rolldown({
    input: path(`workers/${name}.ts`),
    platform: "neutral",
    external: /^(?:cloudflare|node):/,
    resolve: {
      alias: { "#platform": path("../../../src/platform/web.ts") },
      conditionNames: ["workerd", "worker", "browser", "import"],
      mainFields: ["module", "main"],
    },
    logLevel: "silent",
  });
  const { output } = await build.generate({ format: "esm", codeSplitting: false });
  await build.close();
  return output[0].code;
}

export async function startWorker(
  name: string,
  { url, token }: Pick<UpstashDoor, "url" | "token">,
  flags: readonly string[] = [],
): Promise<Miniflare> {
  const bindings: UpstashEnv = { UPSTASH_REDIS_REST_URL: url, UPSTASH_REDIS_REST_TOKEN: token };
  return new Miniflare({
    modules: true,
    script: await bundleWorker(name),
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: [...flags],
    bindings: { ...bindings },
  });
}
