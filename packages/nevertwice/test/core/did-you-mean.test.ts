/** Tests that an unknown name is refused with a suggestion of the name that was probably meant. */
import { describe, expect, test } from "vitest";
import { createClaims } from "../../src/claims/index.ts";
import { didYouMean, nearest } from "../../src/core/did-you-mean.ts";
import { consumer } from "../../src/events/index.ts";
import { idempotentTool } from "../../src/events/mcp.ts";
import { createFlapping } from "../../src/functions/flapping.ts";
import { protect, protectedFunction, replay } from "../../src/functions/protect.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { createGuard } from "../../src/index.ts";
import { createReservations } from "../../src/reservations/index.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const store = memoryStore();
const guard = createGuard({ store, purgeEveryMs: 0 });
const REQUEST = { operation: "charge", key: "k" };
const work = () => 1;
const LETTER = {
  id: "1",
  ...REQUEST,
  error: { name: "", message: "" },
  attempts: 1,
  failedAt: 0,
  replays: 0,
};

/** TypeScript does not allow a misspelt option; JavaScript does. */
const untyped = (options: object) => options as never;

/** A misspelt option, the intended one, and a function that takes options. */
const SLIPS: readonly [slip: string, meant: string, door: (slip: object) => unknown][] = [
  ["retention", "retentionMs", (slip) => createGuard(untyped({ store, ...slip }))],
  ["leaseMS", "leaseMs", (slip) => createGuard(untyped({ store, ...slip }))],
  ["wait", "waitMs", (slip) => guard.with(slip)],
  ["lease_ms", "leaseMs", (slip) => guard.retune(slip)],
  ["fingerPrint", "fingerprint", (slip) => guard.run({ ...REQUEST, ...slip }, work)],
  ["opration", "operation", (slip) => guard.read({ ...REQUEST, ...slip })],
  ["keyfrom", "keyFrom", (slip) => guard.wrap(work, untyped({ operation: "charge", ...slip }))],
  ["lookUp", "lookup", (slip) => guard.seen({ ...REQUEST, ...slip })],
  ["vaule", "value", (slip) => guard.mark({ ...REQUEST, ...slip })],
  ["waitMS", "waitMs", (slip) => guard.exclusive("name", work, slip)],
  ["concurency", "concurrency", (slip) => guard.claimBatch([], slip)],
  ["limt", "limit", (slip) => guard.list(slip)],
  ["fallBack", "fallback", (slip) => protect(guard, untyped({ ...REQUEST, ...slip }), work)],
  [
    "deadLetter",
    "deadLetters",
    (slip) => protectedFunction(guard, work, untyped({ operation: "o", keyFrom: [0], ...slip })),
  ],
  ["polcy", "policy", (slip) => replay(guard, LETTER, work, slip)],
  [
    "profil",
    "profile",
    (slip) => withIdempotency(guard, untyped({ scope: "anyone", ...slip }), untyped(work)),
  ],
  ["laterMS", "laterMs", (slip) => consumer(guard, untyped({ name: "n", key: work, work, ...slip }))],
  [
    "keepError",
    "keepErrors",
    (slip) => idempotentTool(guard, untyped({ operation: "o", scope: "anyone", ...slip })),
  ],
  ["maxChange", "maxChanges", (slip) => createFlapping(slip)],
  ["lease", "leaseMs", (slip) => createClaims(untyped({ store, ...slip }))],
  ["maxRecord", "maxRecords", (slip) => memoryStore(slip)],
  ["window", "windowMs", (slip) => createReservations(untyped({ store: memoryReservations(), ...slip }))],
];

describe("suggests the option that was probably meant:", () => {
  test.each(SLIPS)("%s for %s", async (slip, meant, door) => {
    await expect((async () => door({ [slip]: 1 }))()).rejects.toMatchObject({
      code: "options-invalid",
      message: `options-invalid: there is no option called "${slip}". Did you mean "${meant}"?`,
    });
  });
});

test("suggests nothing for a name that is far from all others", () => {
  expect(didYouMean("banana", ["leaseMs", "waitMs", "store"])).toBe("");
  expect(() => guard.with(untyped({ banana: 1 }))).toThrow(/there is no option called "banana"\.$/);
});

test("ignores a unit at the end of a name, and does not take the ms at the end of a word for a unit", () => {
  expect(nearest("lease", ["store", "leaseMs"])).toBe("leaseMs");
  expect(nearest("LEASE_MS", ["lease", "retention"])).toBe("lease");
  expect(nearest("item", ["items", "itemsMs"])).toBe("items");
});
