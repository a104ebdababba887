/** Tests claims over HTTP, for services in any language. */
import { expect, test } from "vitest";
import { callerOf, startServer } from "./api-client.ts";

const CLAIM = { operation: "charge", key: "order-1" };

async function scene() {
  const server = await startServer({ lease: 60_000 });
  const shop = await callerOf(server, "service", { name: "shop" });
  return { server, shop };
}

test("the first claim is new, and gets what it needs to do the work and to complete it", async () => {
  const { shop } = await scene();
  const { status, body } = await shop("POST", "/v1/claims", { ...CLAIM, deriveKeys: ["psp", "mail"] });
  expect(status).toBe(201);
  expect(body).toMatchObject({ number: 1, tookOver: false, leaseMs: 60_000 });
  expect(body.id).toMatch(/^[0-9a-f]{64}$/);
  expect(body.token).toMatch(/^[\w-]{32}$/);
  expect(body.fence).toBeGreaterThan(0);
  expect(Object.keys(body.derivedKeys)).toEqual(["psp", "mail"]);
  expect(body.derivedKeys.psp).not.toBe(body.derivedKeys.mail);
});

test("a duplicate gets 409 while the work runs, and its outcome afterwards", async () => {
  const { shop } = await scene();
  const { body: claim } = await shop("POST", "/v1/claims", CLAIM);

  const early = await shop("POST", "/v1/claims", CLAIM);
  expect(early).toMatchObject({ status: 409, body: { code: "pending", retryable: true, id: claim.id } });
  expect(early.headers["retry-after"]).toBe("1");
  expect(early.body.leaseLeftMs).toBeGreaterThan(50_000);

  const value = { receipt: 17, lines: [null, "a", { __proto: 1 }] };
  const done = await shop("POST", `/v1/claims/${claim.id}/complete`, { token: claim.token, value });
  expect(done).toMatchObject({ status: 200, body: { id: claim.id } });

  const late = await shop("POST", "/v1/claims", CLAIM);
  expect(late).toMatchObject({ status: 200, body: { id: claim.id, outcome: { kind: "value", value } } });
});

test("a claim that was completed with an error returns that error", async () => {
  const { shop } = await scene();
  const { body } = await shop("POST", "/v1/claims", CLAIM);
  const error = { reason: "card declined" };
  await shop("POST", `/v1/claims/${body.id}/complete`, { token: body.token, error });
  const late = await shop("POST", "/v1/claims", CLAIM);
  expect(late).toMatchObject({ status: 200, body: { outcome: { kind: "thrown", error } } });
});

test("a completion has either a value or an error", async () => {
  const { shop } = await scene();
  const { body } = await shop("POST", "/v1/claims", CLAIM);
  const path = `/v1/claims/${body.id}/complete`;
  for (const wrong of [{}, { value: 1, error: 2 }]) {
    const answer = await shop("POST", path, { token: body.token, ...wrong });
    expect(answer).toMatchObject({ status: 400, body: { code: "request-invalid" } });
  }
  expect((await shop("POST", path, { token: body.token, value: null })).status).toBe(200);
});

test("completing again with the same token returns the same and changes nothing", async () => {
  const { shop } = await scene();
  const { body } = await shop("POST", "/v1/claims", CLAIM);
  const complete = (value: unknown) =>
    shop("POST", `/v1/claims/${body.id}/complete`, { token: body.token, value });
  expect([(await complete("one")).status, (await complete("two")).status]).toEqual([200, 200]);
  expect((await shop("POST", "/v1/claims", CLAIM)).body.outcome.value).toBe("one");
});

test("a stale token neither completes nor renews nor abandons", async () => {
  const { shop } = await scene();
  const stale = (await shop("POST", "/v1/claims", CLAIM)).body;
  await shop("POST", `/v1/claims/${stale.id}/abandon`, { token: stale.token, as: "released" });
  const present = (await shop("POST", "/v1/claims", CLAIM)).body;
  expect(present).toMatchObject({ id: stale.id, number: 2 });
  expect(present.fence).toBeGreaterThan(stale.fence);

  for (const [verb, more] of [
    ["complete", { value: 1 }],
    ["renew", {}],
    ["abandon", {}],
  ] as const) {
    const answer = await shop("POST", `/v1/claims/${stale.id}/${verb}`, { token: stale.token, ...more });
    expect(answer).toMatchObject({
      status: 409,
      body: { code: "lease-lost", status: 409, retryable: false },
    });
    expect(answer.headers["retry-after"]).toBeUndefined();
  }
  const renewed = await shop("POST", `/v1/claims/${present.id}/renew`, {
    token: present.token,
    leaseMs: 90_000,
  });
  expect(renewed.status).toBe(200);
  const { body } = await shop("GET", `/v1/claims/${present.id}`);
  expect(body.leaseLeftMs).toBeGreaterThan(60_000);
});

test("a claim that is repeated with its own token is the same claim", async () => {
  const { shop } = await scene();
  const token = "11111111-2222-3333-4444-555555555555";
  const first = await shop("POST", "/v1/claims", { ...CLAIM, token });
  const again = await shop("POST", "/v1/claims", { ...CLAIM, token });
  expect(again.status).toBe(201);
  expect(again.body).toEqual(first.body);
  expect(again.body.token).toBe(token);
});

test("a token that abandoned its claim gets token-spent, which is not retryable", async () => {
  const { shop } = await scene();
  const token = "11111111-2222-3333-4444-555555555555";
  const { body } = await shop("POST", "/v1/claims", { ...CLAIM, token });
  await shop("POST", `/v1/claims/${body.id}/abandon`, { token });
  const again = await shop("POST", "/v1/claims", { ...CLAIM, token });
  expect(again).toMatchObject({
    status: 409,
    body: {
      code: "token-spent",
      retryable: false,
      id: body.id,
      detail: expect.stringContaining("new token"),
    },
  });
  expect(again.headers["retry-after"]).toBeUndefined();
  const fresh = await shop("POST", "/v1/claims", { ...CLAIM, token: token.replace("1", "2") });
  expect(fresh).toMatchObject({ status: 201, body: { number: 2 } });
});

test("each step of a claim is in the history of its key, once", async () => {
  const { server, shop } = await scene();
  const operator = await callerOf(server, "operator", { name: "olga" });
  const steps = [
    { key: "completed", verb: "complete", more: { value: 1 } },
    { key: "abandoned", verb: "abandon", more: {} },
    { key: "open", verb: "renew", more: {} },
  ];
  for (const { key, verb, more } of steps) {
    const { body } = await shop("POST", "/v1/claims", { ...CLAIM, key });
    // The answer is lost, and the call is repeated.
    for (let tries = 0; tries < 2; tries++)
      await shop("POST", `/v1/claims/${body.id}/${verb}`, { token: body.token, ...more });
    const { body: seen } = await operator("GET", `/v1/keys/${body.id}`);
    const kinds = seen.events.map(({ kind }: { readonly kind: string }) => kind);
    expect(kinds).toEqual(["claimed", ...(key === "open" ? ["renewed", "renewed"] : [key])]);
  }
});

test("another fingerprint for the same key is a conflict that reveals nothing of the first request", async () => {
  const { shop } = await scene();
  await shop("POST", "/v1/claims", { ...CLAIM, fingerprint: { amount: 4_200 } });
  const other = await shop("POST", "/v1/claims", { ...CLAIM, fingerprint: { amount: 1 } });
  expect(other).toMatchObject({ status: 422, body: { code: "conflict" } });
  expect(other.text).not.toMatch(/4.?200|pending/);
});

test("an unknown outcome is held for a decision, with the fence for it", async () => {
  const { shop } = await scene();
  const hold = { ...CLAIM, onLapsed: "hold" };
  const { body } = await shop("POST", "/v1/claims", hold);
  await shop("POST", `/v1/claims/${body.id}/abandon`, { token: body.token, as: "unknown" });
  const next = await shop("POST", "/v1/claims", hold);
  expect(next).toMatchObject({ status: 409, body: { code: "unknown", id: body.id, fence: body.fence } });
  expect(next.headers["retry-after"]).toBeUndefined();
});

test("a lapsed claim is taken over, and the new owner learns it", async () => {
  const { shop } = await scene();
  const { body } = await shop("POST", "/v1/claims", CLAIM);
  await shop("POST", `/v1/claims/${body.id}/abandon`, { token: body.token, as: "unknown" });
  const next = await shop("POST", "/v1/claims", CLAIM);
  expect(next).toMatchObject({ status: 201, body: { number: 2, tookOver: true } });
});

test("a service reads its own claims, without their token, and no others", async () => {
  const { server, shop } = await scene();
  const { body: claim } = await shop("POST", "/v1/claims", { ...CLAIM, scope: "tenant-1" });
  const own = await shop("GET", `/v1/claims/${claim.id}`);
  expect(own).toMatchObject({
    status: 200,
    body: { key: "order-1", scope: "shop|tenant-1", state: "pending" },
  });
  expect(own.text).not.toContain(claim.token);

  const others = [
    await callerOf(server, "service", { name: "stranger" }),
    // Its scope is a beginning of the other's, and that is not enough.
    await callerOf(server, "service", { name: "sho" }),
    await callerOf(server, "service", { name: "shop", namespace: "elsewhere" }),
  ];
  for (const other of others) {
    const answer = await other("GET", `/v1/claims/${claim.id}`);
    expect(answer).toMatchObject({ status: 404, body: { code: "not-found" } });
  }
});

test("the same key of two services is two keys: neither sees or blocks the other", async () => {
  const { server, shop } = await scene();
  const other = await callerOf(server, "service", { name: "other" });
  const first = await shop("POST", "/v1/claims", CLAIM);
  const second = await other("POST", "/v1/claims", { ...CLAIM, fingerprint: "something else" });
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(first.body.id).not.toBe(second.body.id);
});

test("a token's scope never equals a narrowed scope of another token", async () => {
  const server = await startServer();
  const plain = await callerOf(server, "service", { name: "a", scope: "a|b" });
  const below = await callerOf(server, "service", { name: "b", scope: "a" });
  await plain("POST", "/v1/claims", CLAIM);
  expect((await below("POST", "/v1/claims", { ...CLAIM, scope: "b" })).status).toBe(201);
});

test("a claim's token does not work in another scope", async () => {
  const { server, shop } = await scene();
  const thief = await callerOf(server, "service", { name: "thief" });
  const { body } = await shop("POST", "/v1/claims", CLAIM);
  const stolen = await thief("POST", `/v1/claims/${body.id}/complete`, { token: body.token, value: "mine" });
  expect(stolen).toMatchObject({ status: 409, body: { code: "lease-lost" } });
  expect((await shop("GET", `/v1/claims/${body.id}`)).body.state).toBe("pending");
});

test("the store never contains the token of a claim", async () => {
  const { server, shop } = await scene();
  const { body } = await shop("POST", "/v1/claims", CLAIM);
  const record = await server.context.store.read(body.id);
  expect(record?.token).not.toContain(body.token);
});

test("operators and auditors cannot claim, and callers without a token cannot do anything", async () => {
  const { server } = await scene();
  for (const role of ["operator", "auditor"] as const) {
    const caller = await callerOf(server, role, { name: role });
    const answer = await caller("POST", "/v1/claims", CLAIM);
    expect(answer).toMatchObject({ status: 403, body: { code: "not-authorized" } });
  }
  const { callWith } = await import("./api-client.ts");
  const nobody = await callWith(server)("POST", "/v1/claims", CLAIM);
  expect(nobody).toMatchObject({ status: 401, body: { code: "not-authenticated" } });
  expect(nobody.headers["www-authenticate"]).toContain("Bearer");
});

test.each([
  ["no key", { operation: "charge" }, "request-invalid"],
  ["an empty key", { operation: "charge", key: "" }, "request-invalid"],
  ["an empty scope", { ...CLAIM, scope: "" }, "request-invalid"],
  ["a number for a key", { operation: "charge", key: 1 }, "request-invalid"],
  ["an unknown option", { ...CLAIM, ttl: 1 }, "request-invalid"],
  ["a namespace in the body", { ...CLAIM, namespace: "elsewhere" }, "request-invalid"],
  ["a lease of zero", { ...CLAIM, leaseMs: 0 }, "request-invalid"],
  ["a token that is easy to guess", { ...CLAIM, token: "1" }, "request-invalid"],
  ["a key of too many bytes", { operation: "charge", key: "ä".repeat(600) }, "key-invalid"],
  ["an operation of too many bytes", { operation: "ä".repeat(600), key: "k" }, "request-invalid"],
  ["an operation of the library's own", { operation: "nevertwice:quota", key: "k" }, "request-invalid"],
  ["a lone surrogate in a key", { operation: "charge", key: "\ud800" }, "key-invalid"],
  ["a fingerprint that is too deep", { ...CLAIM, fingerprint: deep(200) }, "fingerprint-invalid"],
])("a claim with %s is refused as the caller's mistake", async (_, body, code) => {
  const { shop } = await scene();
  expect(await shop("POST", "/v1/claims", body)).toMatchObject({ status: 400, body: { code } });
});

function deep(levels: number): unknown {
  return levels === 0 ? 1 : [deep(levels - 1)];
}
