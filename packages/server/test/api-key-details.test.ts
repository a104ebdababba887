/** Tests what the API says about one key: the stored HTTP response, the fingerprint, and the derived keys of its effects. */
import { gzipSync } from "node:zlib";
import { withIdempotency } from "nevertwice/http/fetch";
import { expect, test } from "vitest";
import { callerOf, startServer } from "./api-client.ts";

async function scene() {
  const server = await startServer();
  const operator = await callerOf(server, "operator", { name: "ops" });
  const auditor = await callerOf(server, "auditor", { name: "audit" });
  const guard = server.context.guard("default");
  return { server, guard, operator, auditor };
}

type Scene = Awaited<ReturnType<typeof scene>>;

/** Sends one request through the HTTP layer, and returns the id of its key. */
async function answered({ guard, operator }: Scene, response: Response): Promise<string> {
  const handle = withIdempotency(guard, { scope: () => "shop" }, () => response);
  const sent = { method: "POST", headers: { "Idempotency-Key": '"order-1"' }, body: '{"amount":1}' };
  await (await handle(new Request("http://shop.example/orders", sent))).arrayBuffer();
  return (await operator("GET", "/v1/keys")).body.records[0].id;
}

test("a stored response has its status, its headers and its text, for operators only", async () => {
  const staged = await scene();
  const headers = { "content-type": "application/json; charset=utf-8", location: "/orders/1", date: "x" };
  const id = await answered(staged, new Response('{"paid":true}', { status: 201, headers }));

  const { body } = await staged.operator("GET", `/v1/keys/${id}`);
  const seen = await staged.auditor("GET", `/v1/keys/${id}`);

  expect(body.response).toEqual({
    status: 201,
    headers: [
      ["content-type", "application/json; charset=utf-8"],
      ["location", "/orders/1"],
    ],
    body: { bytes: 13, text: '{"paid":true}' },
  });
  expect(seen.body.response).toBeUndefined();
  expect(seen.text).not.toMatch(/paid|\/orders\/1/);
});

test("a compressed body is shown without its coding, and other bytes by their size", async () => {
  const zipped = await scene();
  const coded = { "content-type": "text/plain", "content-encoding": "gzip" };
  const text = "paid ".repeat(50);
  const zippedId = await answered(zipped, new Response(gzipSync(text), { headers: coded }));
  const image = await scene();
  const png = { "content-type": "image/png" };
  const imageId = await answered(
    image,
    new Response(new Uint8Array([137, 80, 78, 71, 255]), { headers: png }),
  );

  const shown = (await zipped.operator("GET", `/v1/keys/${zippedId}`)).body.response.body;
  expect(shown).toEqual({ bytes: gzipSync(text).length, text });
  expect((await image.operator("GET", `/v1/keys/${imageId}`)).body.response.body).toEqual({ bytes: 5 });
});

test.each([
  ["content that expands beyond the limit", gzipSync(Buffer.alloc(2_000_000))],
  ["bytes that do not have their coding", new Uint8Array([255, 1, 2])],
])("%s are shown by their size", async (_, bytes) => {
  const staged = await scene();
  const id = await answered(staged, new Response(bytes, { headers: { "content-encoding": "gzip" } }));
  const { body } = await staged.operator("GET", `/v1/keys/${id}`);
  expect(body.response.body).toEqual({ bytes: bytes.length });
});

test("an outcome that is not a stored response has no response", async () => {
  const { guard, operator } = await scene();
  for (const [index, value] of [[99, [], ""], [200, ["a"], ""], [200, [], 5], "text", null].entries())
    await guard.run({ operation: "charge", key: `order-${index}` }, () => value);
  const { records } = (await operator("GET", "/v1/keys")).body;
  expect(records).toHaveLength(5);
  for (const { id } of records)
    expect((await operator("GET", `/v1/keys/${id}`)).body).not.toHaveProperty("response");
});

test("operators see the fingerprint of one key, and no list has it", async () => {
  const { guard, operator, auditor } = await scene();
  await guard.run({ operation: "charge", key: "order-1", fingerprint: { amount: 5 } }, () => "paid");
  const list = await operator("GET", "/v1/keys");
  const { id } = list.body.records[0];
  // SHA-256 of {"amount":5}, in base64url
  const digest = "2:foTL8PenySwDcFhmXWYVL464WAqyU05SyHe8zOucx78";
  expect((await operator("GET", `/v1/keys/${id}`)).body.record.fingerprint).toBe(digest);
  expect(list.text).not.toContain(digest);
  expect((await auditor("GET", `/v1/keys/${id}`)).text).not.toContain(digest);
});

test("operators get the keys that the work derived for its effects", async () => {
  const { guard, operator, auditor, server } = await scene();
  const seen: Record<string, string> = {};
  await guard.run({ operation: "charge", scope: "shop", key: "order-1" }, (attempt) => {
    for (const name of ["psp", "__proto__x", "mail é"]) seen[name] = attempt.deriveKey(name);
  });
  const { id } = (await operator("GET", "/v1/keys")).body.records[0];
  const path = `/v1/keys/${id}/derived-keys`;
  const names = Object.keys(seen);
  expect(await operator("POST", path, { names })).toMatchObject({ status: 200, body: { derivedKeys: seen } });
  expect((await auditor("POST", path, { names })).status).toBe(403);
  expect((await (await callerOf(server, "service"))("POST", path, { names })).status).toBe(403);
  const stranger = await callerOf(server, "operator", { name: "other", namespace: "other" });
  expect((await stranger("POST", path, { names })).status).toBe(404);
  for (const wrong of [[], [""], Array.from({ length: 21 }, String), "psp", ["é".repeat(600)]])
    expect((await operator("POST", path, { names: wrong })).body.code).toMatch(/^(request|key)-invalid$/);
});
