/** Tests that operators decide many keys at once: only those that they mean, each by the fence that was read. */
import type { Store } from "nevertwice";
import { expect, test } from "vitest";
import { type Call, callerOf, startServer } from "./api-client.ts";

async function scene() {
  const server = await startServer();
  const shop = await callerOf(server, "service", { name: "shop" });
  const operator = await callerOf(server, "operator", { name: "ops" });
  const resolve = (more: object = {}) =>
    operator("POST", "/v1/keys/resolve", { ...WHICH, before: Date.now() + 1_000, ...more });
  return { server, shop, operator, resolve };
}

const WHICH = { operation: "charge", scope: "shop", decision: "not-done" };

async function hold(shop: Call, key: string, operation = "charge", scope?: string) {
  const { id, token } = (await shop("POST", "/v1/claims", { operation, key, scope, onLapsed: "hold" })).body;
  await shop("POST", `/v1/claims/${id}/abandon`, { token, as: "unknown" });
  return id as string;
}

const stateOf = async (operator: Call, id: string): Promise<string> =>
  (await operator("GET", `/v1/keys/${id}`)).body.record.state;

test("a dry run counts the keys and decides none", async () => {
  const { shop, operator, resolve } = await scene();
  const id = await hold(shop, "a");
  expect(await resolve({ dryRun: true })).toMatchObject({
    status: 200,
    body: { matched: 1, resolved: 0, changed: 0, next: null },
  });
  expect(await stateOf(operator, id)).toBe("lapsed");
});

test("only keys of the operation and scope, claimed before the time, are decided", async () => {
  const { shop, operator, resolve } = await scene();
  const meant = await hold(shop, "a");
  const other = await hold(shop, "a", "refund");
  const foreign = await hold(shop, "a", "charge", "tenant");
  expect((await resolve({ before: 1 })).body).toMatchObject({ matched: 0, resolved: 0 });
  expect((await resolve()).body).toMatchObject({ matched: 1, resolved: 1, changed: 0 });
  expect(await Promise.all([meant, other, foreign].map((id) => stateOf(operator, id)))).toEqual([
    "released",
    "lapsed",
    "lapsed",
  ]);
});

test("done tells every retry that the work was done", async () => {
  const { shop, resolve } = await scene();
  await hold(shop, "a");
  await resolve({ decision: "done" });
  const { body } = await shop("POST", "/v1/claims", { operation: "charge", key: "a", onLapsed: "hold" });
  expect(body.outcome).toEqual({ kind: "value", value: null });
});

test("all keys are decided page by page", async () => {
  const { shop, operator, resolve } = await scene();
  const ids: string[] = [];
  for (let i = 0; i < 7; i++) ids.push(await hold(shop, `k${i}`));
  let resolved = 0;
  let after: string | undefined;
  do {
    const { body } = await resolve({ limit: 2, after });
    expect(body.read).toBeLessThanOrEqual(2);
    resolved += body.resolved;
    after = body.next ?? undefined;
  } while (after !== undefined);
  expect(resolved).toBe(7);
  for (const id of ids) expect(await stateOf(operator, id)).toBe("released");
});

test("a key whose next attempt has an unknown outcome too, after the page was read, is left alone", async () => {
  const { server, shop, operator, resolve } = await scene();
  const [changed, same] = [await hold(shop, "a"), await hold(shop, "b")];
  const store = server.context.store as Store & { list: NonNullable<Store["list"]> };
  const { list } = store;
  Object.assign(store, {
    async list(request: Parameters<typeof list>[0]) {
      const page = await list.call(store, request);
      const { fence } = page.records.find(({ id }) => id === changed) ?? expect.fail("the key is not listed");
      Object.assign(store, { list });
      await operator("POST", `/v1/keys/${changed}/resolve`, { fence, decision: "not-done" });
      await hold(shop, "a");
      return page;
    },
  });
  expect((await resolve()).body).toMatchObject({ matched: 2, resolved: 1, changed: 1 });
  expect([await stateOf(operator, changed), await stateOf(operator, same)]).toEqual(["lapsed", "released"]);
});
