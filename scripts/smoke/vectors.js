/** Ids, fingerprints and derived keys that every platform must compute alike: records are shared by all of them. */
import { createGuard } from "nevertwice";
import { withIdempotency } from "nevertwice/http/fetch";
import { memoryStore } from "nevertwice/stores/memory";
import { same } from "./same.js";

const REQUEST = {
  operation: "charge",
  scope: "zażółć",
  key: "order-17",
  fingerprint: { amount: 4_200, for: "🦊" },
};

/** So long that the operation holds its digest. */
const URL = `http://shop.example/${"ż".repeat(600)}?q=1`;

const FORM = '--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\nż\r\n--xyz--\r\n';

/** @type {readonly { key: string, type: string, body: string | Uint8Array<ArrayBuffer>, id: string, fingerprint: string }[]} */
const BODIES = [
  {
    key: "k-json",
    type: "application/json",
    body: '{"b":"ż","a":[1,2.50]}',
    id: "2705a61b7a8380e47191a874367b66e2fcaf10604e88002d9764630314bf012a",
    fingerprint: "2:d4Vp7QiTHzzP9awzH5sjuDe4EaZlQXw-NWZdHtkeRZU",
  },
  {
    key: "k-bytes",
    type: "application/octet-stream",
    body: new Uint8Array([0xff, 0, 0x80]),
    id: "9d4734de83963322c46519b9ded51f0560cc2648dcae5c6130d4b12692045134",
    fingerprint: "2:saqhqHgPOnSiKeJml4uYS_FQ4XiGqkN7AAgy_a0KhxI",
  },
  {
    key: "k-multipart",
    type: "multipart/form-data; boundary=xyz",
    body: FORM,
    id: "2d22446a73ed8f78ffd488797bc4a56941cf2173524724fb8ea9c6c577df6d13",
    fingerprint: "2:uVKiBMKOKdA6Mxi_P4xEs8XrCMxi8Xm3L4qH6TgN-NM",
  },
];

/** @type {readonly (readonly [name: string, smoke: () => Promise<void>])[]} */
export const VECTORS = [
  ["computes the id, fingerprint and derived key of a function", computesIds],
  ["computes the ids and fingerprints of HTTP requests", computesRequestIds],
];

/** A guard, and the claims that it has sent. */
function createNotedGuard() {
  const inner = memoryStore();
  /** @type {{ id: string, fingerprint?: string | undefined }[]} */
  const claims = [];
  /** @type {typeof inner.claim} */
  const claim = (request) => {
    claims.push(request);
    return inner.claim(request);
  };
  return { guard: createGuard({ store: { ...inner, claim } }), claims };
}

async function computesIds() {
  const { guard, claims } = createNotedGuard();
  const derived = await guard.run(REQUEST, (attempt) => attempt.deriveKey("psp"));
  same(claims[0]?.id, "b870c9c56e659fffed994723f58a55dbb542166403e4ae202fb48188b3bb1d60", "the id");
  same(claims[0]?.fingerprint, "2:6otBsUI6i0X8tfP9NW8izTFsFX10S8CS-60EoxP7cfc", "the fingerprint");
  same(derived, "0peMvKuW2OfEOP7gDnIueI1nVdsdauXmh3R1zBf7sqY", "the derived key");
}

async function computesRequestIds() {
  const { guard, claims } = createNotedGuard();
  const serve = withIdempotency(guard, { scope: () => "alice" }, async () => new Response("ok"));
  for (const { key, type, body, id, fingerprint } of BODIES) {
    const headers = { "Idempotency-Key": `"${key}"`, "Content-Type": type };
    await serve(new Request(URL, { method: "POST", headers, body }));
    const claim = claims.at(-1);
    same({ id: claim?.id, fingerprint: claim?.fingerprint }, { id, fingerprint }, key);
  }
}
