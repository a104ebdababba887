/** Bundles Workers from the built package, and runs them in workerd, Cloudflare's own runtime. Needs the build. */
import { fileURLToPath } from "node:url";
import { Miniflare, type MiniflareOptions } from "miniflare";
import { rolldown } from "rolldown";

/** The first date of the runtime's behaviour that has `WeakRef`, which guards use. */
const COMPATIBILITY_DATE = "2025-05-05";

/** As bundlers for Workers resolve a package. What the runtime itself has stays an import. */
async function bundleWorker(entry: string): Promise<string> {
  const build = await rolldown({
    input: entry,
    platform: "neutral",
    external: /^(?:cloudflare|node):/,
    resolve: { conditionNames: ["workerd", "worker", "browser", "import"], mainFields: ["module", "main"] },
    logLevel: "silent",
  });
  const { output } = await build.generate({ format: "esm", codeSplitting: false });
  await build.close();
  return output[0].code;
}

const bundles = new Map<string, Promise<string>>();

/** The code of a Worker, bundled once: one in the folder `workers`, or one by its whole path. */
export function workerCode(name: string): Promise<string> {
  const entry = fileURLToPath(new URL(name, new URL("workers/", import.meta.url)));
  const code = bundles.get(entry) ?? bundleWorker(entry);
  bundles.set(entry, code);
  return code;
}

export const BINDINGS = {
  durableObjects: { NEVERTWICE: { className: "TestObject", useSQLite: true } },
  d1Databases: ["DB"],
} satisfies Partial<MiniflareOptions>;

export interface Runtime {
  /** The Worker's answer to a GET of this path, as JSON. */
  ask<Answer>(path: string, parameters?: Readonly<Record<string, string>>): Promise<Answer>;
  /** The Worker's answer to a POST, as JSON. */
  post<Answer>(path: string, body: object): Promise<Answer>;
  readonly miniflare: Miniflare;
  stop(): Promise<void>;
}

/** `flags` are compatibility flags such as `nodejs_compat`. */
export async function startRuntime(
  worker: string,
  flags: readonly string[] = [],
  options: object = BINDINGS,
): Promise<Runtime> {
  const miniflare = new Miniflare({
    modules: true,
    script: await workerCode(worker),
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: [...flags],
    ...options,
  } as MiniflareOptions);
  async function read(response: { ok: boolean; status: number; text(): Promise<string> }) {
    const text = await response.text();
    if (!response.ok) throw new Error(`the Worker answered ${response.status}: ${text}`);
    return JSON.parse(text);
  }
  return {
    miniflare,
    ask: async (path, parameters = {}) =>
      read(await miniflare.dispatchFetch(`http://worker${path}?${new URLSearchParams(parameters)}`)),
    post: async (path, body) =>
      read(
        await miniflare.dispatchFetch(`http://worker${path}`, { method: "POST", body: JSON.stringify(body) }),
      ),
    stop: () => miniflare.dispose(),
  };
}
