/** Tests one key on another request: what docs/http.md says of another body, query, path and method. */
import { expect, test } from "vitest";
import { scene } from "./profile-scene.ts";

const headers = { "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324" };

const OTHERS = {
  body: { body: { amount: 6 } },
  query: { path: "/orders?express=1" },
  path: { path: "/refunds" },
  method: { method: "PATCH" },
} as const;

test.each([
  { operation: undefined, statuses: { body: 422, query: 422, path: 201, method: 201 }, runs: 3 },
  { operation: "shop", statuses: { body: 422, query: 422, path: 422, method: 422 }, runs: 1 },
])("a used key on another request, with the operation $operation", async ({ operation, statuses, runs }) => {
  const service = scene({ operation });
  await service.send({ headers });
  const answers = Object.entries(OTHERS).map(async ([what, asked]) => {
    const { status } = await service.send({ headers, ...asked });
    return [what, status] as const;
  });
  expect(Object.fromEntries(await Promise.all(answers))).toEqual(statuses);
  expect(service.runs()).toBe(runs);
});
