/** Tests the name of the header that marks a replay. Clients rely on it, and no other test contains its text. */
import { expect, it } from "vitest";
import { createGuard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { memoryStore } from "../../src/stores/memory.ts";

it("marks a replay, and only a replay, with Idempotent-Replayed: true", async () => {
  const guard = createGuard({ store: memoryStore() });
  const handler = withIdempotency(guard, { scope: "anyone" }, () => new Response("done"));
  const send = () =>
    handler(new Request("http://shop.test/", { method: "POST", headers: { "Idempotency-Key": "k" } }));
  expect((await send()).headers.get("Idempotent-Replayed")).toBeNull();
  expect((await send()).headers.get("Idempotent-Replayed")).toBe("true");
  await guard.close();
});
