/** Tests that the HTTP conformance rows of the library, each run through the gateway with an ordinary service behind it. */
import { expect, test, vi } from "vitest";
import type * as Conformance from "../../nevertwice/test/http/conformance/service.ts";

vi.mock("../../nevertwice/test/http/conformance/service.ts", async (importOriginal) => {
  const original = await importOriginal<typeof Conformance>();
  const { servingThrough } = await import("./gateway/conformance-service.ts");
  return { ...original, serve: servingThrough(original.listen) };
});

test("the rows below go through the gateway", async () => {
  const { serve } = await import("../../nevertwice/test/http/conformance/service.ts");
  const { send } = await serve();
  expect((await send()).header("via")).toBe("1.1 nevertwice");
});

await import("../../nevertwice/test/http/conformance/concurrency.test.ts");
await import("../../nevertwice/test/http/conformance/enforcement.test.ts");
await import("../../nevertwice/test/http/conformance/expiry.test.ts");
await import("../../nevertwice/test/http/conformance/field-syntax.test.ts");
await import("../../nevertwice/test/http/conformance/fingerprint.test.ts");
await import("../../nevertwice/test/http/conformance/problem-details.test.ts");
await import("../../nevertwice/test/http/conformance/recipes.test.ts");
await import("../../nevertwice/test/http/conformance/replay-fidelity.test.ts");
await import("../../nevertwice/test/http/conformance/scope-and-security.test.ts");
await import("../../nevertwice/test/http/conformance/security-rules.test.ts");
