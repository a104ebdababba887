/** Tests the limits of scope, operation and key: a request that exceeds one is refused, and nothing runs. */
import { Buffer } from "node:buffer";
import { expect, onTestFinished, test } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { idempotency as lambda } from "../../src/http/lambda.ts";
import { idempotency as node } from "../../src/http/node.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { exchange, listen, requestText } from "./wire.ts";

function scene() {
  const store = faultyStore(memoryStore());
  const guard = createGuard({ store, purgeEveryMs: 0 });
  onTestFinished(async () => void (await guard.close()));
  return { store, guard };
}

type Options = Partial<HttpOptions<Request>>;

async function ask(options: Options, { key = "k-1", body = "{}" } = {}) {
  const { store, guard } = scene();
  let runs = 0;
  const handle = withIdempotency(guard, { scope: "anyone", ...options }, () => {
    runs++;
    return Response.json({ ok: true });
  });
  const headers = { "content-type": "application/json", "idempotency-key": `"${key}"` };
  const response = await handle(new Request("http://localhost/orders", { method: "POST", headers, body }));
  const { code } = (await response.json()) as { readonly code?: string };
  return { status: response.status, code, runs, claims: store.calls.claim };
}

const LIMIT = "x".repeat(1_024);
const TOO_LONG = `${LIMIT}x`;
/** 1,200 bytes in 600 characters. */
const TOO_MANY_BYTES = "\u00e9".repeat(600);
const LONE = "tenant\ud800";

const taken = { status: 200, code: undefined, runs: 1, claims: 1 };
const refused = (code: string, status = 400) => ({ status, code, runs: 0, claims: 0 });

test.each<[string, unknown, object]>([
  ["of 1,024 bytes", LIMIT, taken],
  ["of 1,025 bytes", TOO_LONG, refused("request-invalid")],
  ["of 600 characters and 1,200 bytes", TOO_MANY_BYTES, refused("request-invalid")],
  ["with a lone surrogate", LONE, refused("request-invalid")],
  ["that is empty", "", refused("scope-missing", 500)],
  ["that is undefined", undefined, refused("scope-missing", 500)],
  ["that is a number", 7, refused("scope-missing", 500)],
])("a scope %s", async (_, scope, expected) => {
  expect(await ask({ scope: () => scope as string })).toEqual(expected);
  expect(await ask({ scope: async () => scope as string })).toEqual(expected);
});

test.each<[string, unknown, object]>([
  ["of 1,024 bytes", LIMIT, taken],
  ["of 1,025 bytes", TOO_LONG, refused("request-invalid")],
  ["of 600 characters and 1,200 bytes", TOO_MANY_BYTES, refused("request-invalid")],
  ["with a lone surrogate", LONE, refused("request-invalid")],
  ["that is empty", "", refused("options-invalid", 500)],
  ["that is undefined", undefined, refused("options-invalid", 500)],
])("an operation %s that a function computed from the request", async (_, operation, expected) => {
  expect(await ask({ operation: () => operation as string })).toEqual(expected);
});

test.each<[string, Options, { key?: string; body?: string }]>([
  ["in a header, above the limit of identities", { maxKeyLength: 5_000 }, { key: TOO_LONG }],
  [
    "in a member, above the limit of identities",
    { keyField: "id", maxKeyLength: 5_000 },
    { body: JSON.stringify({ id: TOO_LONG }) },
  ],
  [
    "in a member, of too many bytes",
    { keyField: "id", maxKeyLength: 5_000 },
    { body: JSON.stringify({ id: TOO_MANY_BYTES }) },
  ],
  ["in a member, with a lone surrogate", { keyField: "id" }, { body: '{"id":"a\\ud800"}' }],
  ["in a header, above the usual limit", {}, { key: "k".repeat(256) }],
])("a key %s is refused", async (_, options, sent) => {
  expect(await ask(options, sent)).toEqual(refused("key-invalid"));
});

test("a path of any length is accepted, and its key differs from that of another path", async () => {
  const { guard } = scene();
  let runs = 0;
  const port = await listen(
    node(guard, { scope: "anyone", fingerprint: "none" })((_req, res) => res.end(`run ${++runs}`)),
  );
  const askFor = async (path: string) =>
    (await exchange(port, requestText("", { "Idempotency-Key": "k" }, `POST ${path} HTTP/1.1`))).slice(-5);
  const [one, other] = ["/a".repeat(4_000), "/b".repeat(4_000)];
  expect([await askFor(one), await askFor(one), await askFor(other)]).toEqual(["run 1", "run 1", "run 2"]);
});

test.each([
  ["of 600 characters and 1,800 bytes", "/\u20ac".repeat(300), 200],
  ["that is not well-formed text", "/orders/\ud800", 400],
  ["that is long and not well-formed text", `/orders/${"\ud800".repeat(1_000)}`, 400],
])("a path %s, in an event of version 1", async (_, path, status) => {
  const { guard, store } = scene();
  const handle = lambda(guard, { scope: "anyone", fingerprint: "none" })(async () => ({ statusCode: 200 }));
  const event = { httpMethod: "POST", path, headers: { "Idempotency-Key": "k" }, body: "" };
  const answer = (await handle(event as never)) as { statusCode: number; body?: string };
  expect(answer.statusCode).toBe(status);
  expect(store.calls.claim).toBe(status === 200 ? 1 : 0);
  if (status === 400) expect(answer.body).toContain("request-invalid");
});

test("a refusal names the value that is wrong, and does not repeat it", async () => {
  const { guard } = scene();
  const handle = withIdempotency(guard, { scope: () => TOO_LONG }, () => new Response("no"));
  const headers = { "idempotency-key": "k" };
  const response = await handle(new Request("http://localhost/", { method: "POST", headers }));
  const { detail } = (await response.json()) as { readonly detail: string };
  expect(detail).toBe("The scope of the request has 1025 bytes; 1024 is the limit. Hash long content first.");
  expect(Buffer.byteLength(detail)).toBeLessThan(200);
});
