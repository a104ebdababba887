/** Tests what a key costs on Cloudflare, in bytes and in billed rows: docs/stores.md says so. Needs the build. */
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { claimOf } from "../stores/claim-request.ts";
import { documentedBytes, storeCell } from "../stores-doc.ts";
import { type RemoteStore, remoteStore } from "./remote-store.ts";
import { type Runtime, startRuntime } from "./runtime.ts";

const KEYS = 500;

let runtime: Runtime;
beforeAll(async () => {
  runtime = await startRuntime("store-calls.ts");
});
afterAll(() => runtime.stop());

interface Costs {
  readonly bytes: number;
  readonly written: number;
}

async function expectDocumented(context: TestContext, store: string, costs: Costs): Promise<void> {
  const { bytes, written } = costs;
  await context.annotate(
    `${store}: ${Math.round(bytes)} bytes, and ${written.toFixed(2)} rows written, for a key`,
  );
  const saysBytes = documentedBytes(store);
  expect(saysBytes, `docs/stores.md, and a key takes ${bytes} bytes`).toBeGreaterThanOrEqual(bytes);
  expect(saysBytes, `docs/stores.md, and a key takes ${bytes} bytes`).toBeLessThan(bytes * 1.6);
  expect(
    Number(storeCell(store, "rows written, billed for a first call")),
    "rows written, in docs/stores.md",
  ).toBe(Math.round(written));
}

interface Inspection {
  readonly bytes: number;
  readonly billed: { readonly read: number; readonly written: number };
}

const inspect = (store: RemoteStore) => store.first({ path: "/inspect" }) as Promise<Inspection>;

test("Durable Objects", async (context) => {
  const store = remoteStore(runtime, { shards: 1 });
  await store.fill(1);
  const before = await inspect(store);
  await store.fill(KEYS);
  const after = await inspect(store);
  const written = (after.billed.written - before.billed.written) / KEYS;
  await expectDocumented(context, "Durable Objects", { bytes: after.bytes / KEYS, written });
  const claim = claimOf("replayed");
  await store.claim(claim);
  await store.complete({ id: claim.id, token: claim.token, outcome: "done", retentionMs: 60_000 });
  const replayed = (await inspect(store)).billed.written;
  await store.claim(claimOf("replayed"));
  expect((await inspect(store)).billed.written).toBe(replayed);
});

test("D1", async (context) => {
  const store = remoteStore(runtime, { binding: "DB" });
  await store.migrate();
  await store.traffic({ rowsWritten: 0 });
  await store.fill(KEYS);
  const { rowsWritten, bytes } = await store.traffic();
  await expectDocumented(context, "D1", { bytes: bytes / KEYS, written: rowsWritten / KEYS });
  const claim = claimOf("replayed");
  await store.claim(claim);
  await store.complete({ id: claim.id, token: claim.token, outcome: "done", retentionMs: 60_000 });
  await store.traffic({ rowsWritten: 0 });
  await store.claim(claimOf("replayed"));
  expect((await store.traffic()).rowsWritten).toBe(0);
});
