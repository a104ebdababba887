/** Tests the list of the claims that a delivery waits for or holds. */
import { describe, expect, it } from "vitest";
import { type ClaimName, ClaimsInUse } from "../../src/pipeline/claims-in-use.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { createPipelineScene, type Shell } from "./scene.ts";

const OPERATIONS = ["shop/price", "shop/ship"];

/** Two of each name that only one member tells apart. */
const NAMES: readonly ClaimName[] = OPERATIONS.flatMap((operation) =>
  ["a", "b"].flatMap((scope) =>
    Array.from({ length: 6 }, (_, n) => ({ operation, scope, key: `order-${n}` })),
  ),
);

describe("the claims in use", () => {
  it.each([3, 8, 9, 24])("counts each of %i claims", (most) => {
    const random = seededRandom(most);
    const names = NAMES.slice(0, most);
    const claims = new ClaimsInUse();
    const counts = new Map<ClaimName, number>();
    for (let step = 0; step < 5_000; step++) {
      const name = random.pick(names);
      const count = counts.get(name) ?? 0;
      // Equal names in other objects, as two messages have them.
      if (random.chance(0.5)) {
        claims.add({ ...name });
        counts.set(name, count + 1);
      } else if (count > 0) {
        claims.remove({ ...name });
        counts.set(name, count - 1);
      }
      for (const one of names) expect(claims.has({ ...one })).toBe((counts.get(one) ?? 0) > 0);
    }
  });
});

/** A message that is split into `count` pairs with equal keys, which a node forwards to another. */
async function pushPairs(count: number) {
  const ran: string[] = [];
  const take: Shell = ({ id }, { emit }) =>
    Array.from({ length: count * 2 }, (_, n) => emit("out", { id: `${id}-${n >> 1}` }));
  const price: Shell = ({ id }, { emit }) => {
    ran.push(id);
    return emit("out", { id });
  };
  const scene = createPipelineScene({
    nodes: {
      take: { out: ["out"], shell: take },
      price: { out: ["out"], shell: price, key: "id", concurrency: 100 },
      ship: {
        kind: "sink",
        key: "id",
        concurrency: 100,
        shell: ({ id }: { id: string }) => void ran.push(id),
      },
    },
    edges: ["take.out > price.in", "price.out > ship.in"],
    in: { orders: "take.in" },
  });
  return { outcome: await scene.settle(scene.pipeline.push("orders", { id: "o" })), ran };
}

describe("two messages of one delivery with the same key", () => {
  it.each([1, 4, 30])("wait for each other: %i pairs", async (pairs) => {
    const { outcome, ran } = await pushPairs(pairs);
    expect(outcome.verdict).toBe("acknowledge");
    expect(ran).toHaveLength(pairs * 2);
    expect(new Set(ran).size).toBe(pairs);
  });
});
