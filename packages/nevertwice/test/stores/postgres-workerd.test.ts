/** Tests transactions of a Worker on a real Postgres, in workerd with `nodejs_compat`, which `pg` needs. Needs the build. */
import { isBuiltin } from "node:module";
import { fileURLToPath } from "node:url";
import { Miniflare } from "miniflare";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";
import { STRICT } from "../platform/workerd.ts";
import { sharedUrl, startFor } from "../services/services.ts";
import { createDatabase, query } from "./postgres/database.ts";

const PROGRAM = fileURLToPath(new URL("postgres/workers/orders.ts", import.meta.url));

/** What wrangler does in its own way: modules of Node that CommonJS requires are those of the runtime. */
const REQUIRE = "const require = (name) => process.getBuiltinModule(name);";

async function bundleWorker(): Promise<string> {
  const build = await rolldown({
    input: PROGRAM,
    platform: "neutral",
    external: (name) => isBuiltin(name) || /^(?:cloudflare:|pg-native$)/.test(name),
    resolve: { conditionNames: ["workerd", "worker", "browser"], mainFields: ["module", "main"] },
    logLevel: "silent",
  });
  const { output } = await build.generate({ format: "esm", codeSplitting: false, banner: REQUIRE });
  await build.close();
  return output[0].code;
}

test("transactions of a Worker charge once for each key, whatever overlaps", async (context) => {
  const url = await createDatabase(sharedUrl(context, "postgres"));
  await query(url, "CREATE TABLE charges (key text)");
  const { worker } = await startFor(context, async () => {
    const worker = new Miniflare({
      modules: true,
      script: await bundleWorker(),
      compatibilityDate: "2026-01-01",
      compatibilityFlags: [STRICT, "nodejs_compat"],
      bindings: { DATABASE_URL: url },
    });
    return { worker, stop: () => worker.dispose() };
  });
  const ask = async (path: string, key = "", ms = 0) => {
    const response = await worker.dispatchFetch(`http://worker${path}?key=${key}&ms=${ms}`);
    return response.json();
  };
  await ask("/migrate");

  const first = await ask("/transaction", "order-1");
  expect(await ask("/transaction", "order-1")).toBe(first);
  const [duplicates, others] = await Promise.all([
    Promise.all(Array.from({ length: 4 }, () => ask("/transaction", "order-2", 300))),
    Promise.all(Array.from({ length: 4 }, (_, index) => ask("/transaction", `other-${index}`, 80 * index))),
  ]);
  expect(new Set(duplicates).size).toBe(1);
  const own = await ask("/once", "order-3");
  expect(await ask("/once", "order-3")).toBe(own);

  const receipts = [first, duplicates[0], ...others, own];
  expect(new Set(receipts).size).toBe(7);
  for (const receipt of receipts) expect(receipt).toMatch(/^[0-9a-f-]{36}$/);
  expect(await query(url, "SELECT key FROM charges ORDER BY key")).toEqual(
    ["order-1", "order-2", "order-3", "other-0", "other-1", "other-2", "other-3"].map((key) => ({ key })),
  );
});
