/** Tests that an option without an effect is refused at the start, and that an ignored key causes a warning. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createExchange } from "../../src/http/exchange.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { createGuard } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { scene } from "./profile-scene.ts";

const KEY = { "idempotency-key": "8e03978e-40d5-43e8-bc93-6894a57f9324" };

describe("options without an effect", () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const invalid = (options: Partial<HttpOptions<unknown>>) =>
    expect(() => createExchange(guard, { scope: "anyone", ...options })).toThrow(
      expect.objectContaining({ code: "options-invalid" }),
    );

  test.each(["*", "X-*", "x-ratelimit-*"])("replayHeaders refuses the pattern %s", (pattern) => {
    invalid({ replayHeaders: ["X-Receipt", pattern] });
  });

  test.each(["*", "items.*.price", "items[0].price", "items[*].price", "$.amount", "$"])(
    "fingerprint.fields refuses %s, which would name no member of any body",
    (path) => {
      invalid({ fingerprint: { fields: ["amount", path] } });
    },
  );

  test("fingerprint.fields accepts list indexes and names with a dollar", async () => {
    const { send, runs } = scene({ fingerprint: { fields: ["items.0.price", "$filter"] } });
    await send({ headers: KEY, body: { items: [{ price: 1, note: "a" }], $filter: "x" } });
    const same = await send({ headers: KEY, body: { items: [{ price: 1, note: "b" }], $filter: "x" } });
    const other = await send({ headers: KEY, body: { items: [{ price: 2 }], $filter: "x" } });
    expect([same.status, other.status, runs()]).toEqual([201, 422, 1]);
  });
});

describe("a key on a method that methods does not name", () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  beforeEach(() => void process.on("warning", note));
  afterEach(() => {
    process.off("warning", note);
    warnings.length = 0;
  });
  /** Node emits warnings in the next turn. */
  const emitted = () => new Promise<readonly Error[]>((resolve) => setImmediate(() => resolve(warnings)));

  test("causes one warning for each method, with the path and without query and key", async () => {
    const { send, runs } = scene({});
    for (const method of ["PUT", "PUT", "DELETE"])
      await send({ method, path: "/orders/7?secret=1", headers: KEY });
    expect(runs()).toBe(3);
    const [put, remove, ...more] = await emitted();
    expect(more).toEqual([]);
    expect(put).toMatchObject({ name: "NevertwiceWarning", code: "NEVERTWICE_KEY_IGNORED" });
    expect(put?.message).toContain('PUT "/orders/7"');
    expect(put?.message).toContain("keys count on POST, PATCH");
    expect(remove?.message).toContain('DELETE "/orders/7"');
    expect(`${put?.message}${remove?.message}`).not.toMatch(/secret|8e03978e/);
  });

  test("causes no warning without a key, on a safe method, or on a protected method", async () => {
    const { send } = scene({});
    await send({ method: "PUT" });
    await send({ method: "GET", headers: KEY, body: undefined });
    await scene({ methods: ["PUT", "DELETE"] }).send({ method: "PUT", headers: KEY });
    expect(await emitted()).toEqual([]);
  });

  test("runs once if `methods` names the method", async () => {
    const { send, runs } = scene({ methods: ["POST", "PATCH", "PUT", "DELETE"] });
    for (const method of ["PUT", "PUT", "DELETE", "DELETE"]) await send({ method, headers: KEY });
    expect(runs()).toBe(2);
    expect(await emitted()).toEqual([]);
  });
});
