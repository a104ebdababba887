/** Tests the keys of messages in nodes. */
import { expect, test, vi } from "vitest";
import { compositeKey } from "../../src/core/key.ts";
import { keyFrom } from "../../src/pipeline/node-key.ts";
import { seededRandom } from "../../src/testing/random.ts";
import { chargeOf, createManifestScene, KEYED, nodeOf, shopOf } from "./manifest-scene.ts";

test("Bloccs: caller-supplied key: what the payload says is the key, as it is", async () => {
  const { push, guard } = createManifestScene(shopOf(() => undefined));
  await push({ id: "request-7" });
  expect(await guard.read(chargeOf("request-7"))).toMatchObject({ state: "completed", key: "request-7" });
});

test("Bloccs: key from named field/argument: the field that the contract names, whatever else is in the payload", async () => {
  const charge = vi.fn(() => undefined);
  const { push } = createManifestScene(shopOf(charge, { idempotency: { key: "request_id" } }));
  await push({ request_id: "r-1", amount: 4_200 });
  expect(await push({ request_id: "r-1", amount: 1 })).toMatchObject({ isDuplicate: true });
  await push({ request_id: "r-2", amount: 4_200 });
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: composite key, injective joining: several fields make one key, and no two lists of values the same", async () => {
  const charge = vi.fn(() => undefined);
  const { push } = createManifestScene(shopOf(charge, { idempotency: { key: ["tenant", "id"] } }));
  const payloads = [
    { tenant: "a|b", id: "c" },
    { tenant: "a", id: "b|c" },
    { tenant: "a", id: 1 },
    { tenant: "a", id: "1" },
    { tenant: "a", id: "#1" },
  ];
  for (const payload of [...payloads, ...payloads]) await push(payload);
  expect(charge).toHaveBeenCalledTimes(payloads.length);
});

test("Bloccs: namespace by scope (network+node): an equal key in another node or network is another", async () => {
  const ran: string[] = [];
  const note = (name: string) => nodeOf(name, () => void ran.push(name), KEYED);
  const manifest = {
    network: { id: "shop", version: "1.0.0" },
    nodes: { charge: note("charge"), refund: note("refund") },
    expose: { in: { orders: "charge.in", refunds: "refund.in" } },
  };
  const { push, pipeline, settle, guard } = createManifestScene(manifest);
  await push({ id: "o-1" });
  await settle(pipeline.push("refunds", { id: "o-1" }));
  await push({ id: "o-1" });
  expect(ran).toEqual(["charge", "refund"]);
  expect(await guard.read(chargeOf("o-1"))).toBeDefined();
  expect(await guard.read(chargeOf("o-1", "charge", "other-shop"))).toBeUndefined();
});

test("Bloccs: missing key → pass through: only in a node that declares none; one that does refuses, and says so", async () => {
  const charge = vi.fn(() => undefined);
  const keyless = createManifestScene({
    network: { id: "shop", version: "1.0.0" },
    nodes: { charge: nodeOf("charge", charge) },
    expose: { in: { orders: "charge.in" } },
  });
  for (const _ of [1, 2]) expect((await keyless.push({})).verdict).toBe("acknowledge");
  expect(charge).toHaveBeenCalledTimes(2);
  const keyed = createManifestScene(shopOf(charge));
  for (const payload of [{}, { id: null }, { id: "" }, "o-1"])
    expect(await keyed.push(payload)).toMatchObject({
      verdict: "reject",
      failures: [{ phase: "validate", reason: "key-missing" }],
    });
  expect(keyed.told("failed")).toHaveLength(4);
  expect(charge).toHaveBeenCalledTimes(2);
});

test("Bloccs: opaque byte-exact comparison: nothing is trimmed, folded or normalised", async () => {
  const charge = vi.fn(() => undefined);
  const { push } = createManifestScene(shopOf(charge));
  const ids = ["order", "Order", "order ", " order", "\u00e9", "e\u0301", "1", 1, "01"];
  for (const id of [...ids, ...ids]) await push({ id });
  expect(charge).toHaveBeenCalledTimes(ids.length);
});

test("the key of a single field is the composite key of its value", () => {
  const random = seededRandom(7);
  const letters = [
    "a",
    "Z",
    "0",
    "_",
    "-",
    "|",
    "\\",
    "#",
    "?",
    "~",
    " ",
    "\n",
    ".",
    ":",
    "\u00e9",
    "\u{1f600}",
  ];
  const text = () => Array.from({ length: random.between(1, 4) }, () => random.pick(letters)).join("");
  for (let n = 0; n < 5_000; n++) {
    const id = text();
    expect(keyFrom({ id }, ["id"])).toBe(compositeKey(id).text);
  }
  for (const id of [7, 7n, true, false, new Date(0), new Uint8Array([1])])
    expect(keyFrom({ id }, ["id"])).toBe(compositeKey(id).text);
  expect(() => keyFrom({ id: "\ud800" }, ["id"])).toThrow(/lone surrogate/);
});
