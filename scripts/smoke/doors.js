/** What the other doors of the package promise: HTTP, the client, messages, webhooks, retries, claims, sagas, transactions. */
import { Hono } from "hono";
import { isNevertwiceError } from "nevertwice";
import { createClaims } from "nevertwice/claims";
import { createFetch } from "nevertwice/client";
import { consumer } from "nevertwice/events";
import { standardWebhooks, webhook } from "nevertwice/events/webhook";
import { withIdempotency } from "nevertwice/http/fetch";
import { idempotency } from "nevertwice/http/hono";
import { protect } from "nevertwice/protect";
import { saga } from "nevertwice/saga";
import { memoryStore } from "nevertwice/stores/memory";
import { once } from "nevertwice/transaction";
import { rejects, same } from "./same.js";

/** @type {readonly (readonly [name: string, smoke: (guard: import("nevertwice").Guard) => Promise<void>])[]} */
export const DOORS = [
  ["http/fetch replays a response, and refuses a conflict", replaysOverFetch],
  ["http/hono replays a response, and refuses a conflict", replaysOverHono],
  ["http/fetch unpacks a response for a client without gzip", unpacksAReplay],
  ["client retries with the same key", retriesWithOneKey],
  ["events handles a message once", handlesAMessageOnce],
  ["events/webhook checks a signature", checksASignature],
  ["protect claims once for all retries", claimsOnceForRetries],
  ["claims grants, completes and replays", grantsClaims],
  ["saga undoes its steps", undoesSteps],
  ["transaction refuses what is no database", refusesAnotherDatabase],
];

/**
 * @param {(request: Request) => Promise<Response> | Response} serve
 */
async function checkReplays(serve) {
  const post = async (/** @type {object} */ body) => {
    const response = await serve(
      new Request("http://shop.example/orders", {
        method: "POST",
        headers: { "Idempotency-Key": '"order-1"', "Content-Type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
    return { status: response.status, text: await response.text() };
  };
  const first = { status: 201, text: '{"run":1,"for":"ż"}' };
  same(await post({ amount: 5 }), first, "the first response");
  same(await post({ amount: 5 }), first, "the replay");
  same((await post({ amount: 6 })).status, 422, "the status of a conflict");
}

/** @param {import("nevertwice").Guard} guard */
async function replaysOverFetch(guard) {
  let runs = 0;
  const handler = async () => Response.json({ run: ++runs, for: "ż" }, { status: 201 });
  await checkReplays(withIdempotency(guard, { scope: "anyone" }, handler));
}

/** @param {import("nevertwice").Guard} guard */
async function replaysOverHono(guard) {
  let runs = 0;
  const app = new Hono();
  app.post("/orders", idempotency(guard, { scope: "anyone" }), (c) => c.json({ run: ++runs, for: "ż" }, 201));
  await checkReplays((request) => app.fetch(request));
}

/** "a response that is long enough" in gzip. */
const PACKED = "H4sIAAAAAAAAA0tUKEotLsjPK05VKMlILFHILFbIyc9LV0jNyy9NzwAAlu/zAB4AAAA=";

/** @param {import("nevertwice").Guard} guard */
async function unpacksAReplay(guard) {
  const bytes = Uint8Array.from(atob(PACKED), (character) => character.charCodeAt(0));
  // Workers would pack a body with this header themselves.
  const init = { headers: { "Content-Encoding": "gzip" }, encodeBody: "manual" };
  const serve = withIdempotency(guard, { scope: "anyone" }, async () => new Response(bytes, init));
  const get = (/** @type {string} */ accepted) => {
    const headers = { "Idempotency-Key": '"order-1"', "Accept-Encoding": accepted };
    return serve(new Request("http://shop.example/orders", { method: "POST", headers }));
  };
  same((await get("gzip")).headers.get("content-encoding"), "gzip");
  const plain = await get("identity");
  // Vercel's edge runtime cannot unpack anything: there, the replay has the bytes of the first response.
  if (typeof DecompressionStream !== "function") return same(plain.headers.get("content-encoding"), "gzip");
  same(plain.headers.get("content-encoding"), null);
  same(await plain.text(), "a response that is long enough");
}

async function retriesWithOneKey() {
  /** @type {(string | null)[]} */
  const keys = [];
  const send = createFetch({
    firstPauseMs: 1,
    maxPauseMs: 1,
    async fetch(input, init) {
      keys.push(new Request(input, init).headers.get("idempotency-key"));
      return new Response(null, { status: keys.length === 1 ? 503 : 201 });
    },
  });
  same((await send("http://shop.example/orders", { method: "POST", body: "{}" })).status, 201);
  same(keys.length, 2, "the number of tries");
  same(keys[0], keys[1], "the key of the second try");
}

/** @param {import("nevertwice").Guard} guard */
async function handlesAMessageOnce(guard) {
  let runs = 0;
  const key = (/** @type {{ id: string }} */ message) => message.id;
  const billing = consumer(guard, { name: "billing", key, work: () => ++runs });
  const [first, again] = await billing.handleBatch([{ id: "order-1" }, { id: "order-1" }]);
  same([first?.status, again?.status, runs], ["done", "done-before", 1]);
}

/** @param {import("nevertwice").Guard} guard */
async function checksASignature(guard) {
  const clock = { now: () => 1_614_265_330_000 };
  const work = () => "done";
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const hook = webhook(guard, { name: "billing", scheme: standardWebhooks, secret, work, clock });
  const deliver = async (/** @type {string} */ signature) => {
    const headers = {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": signature,
    };
    const body = '{"test": 2432232314}';
    const request = new Request("http://shop.example/hooks", { method: "POST", headers, body });
    return (await hook(request)).status;
  };
  // The example of the specification.
  same(await deliver("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="), 204);
  same(await deliver("v1,h0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="), 401);
}

/** @param {import("nevertwice").Guard} guard */
async function claimsOnceForRetries(guard) {
  /** @type {import("nevertwice/protect").DeadLetter[]} */
  const letters = [];
  let tries = 0;
  const policy = {
    /** @param {() => Promise<unknown>} work */
    execute: (work) => work().catch(work),
  };
  const options = {
    operation: "charge",
    key: () => "order-1",
    policy,
    deadLetters: letters.push.bind(letters),
  };
  const fail = async () => {
    tries++;
    throw new Error("503");
  };
  await rejects(protect(guard, options, fail), (error) => String(error).includes("503"));
  same([tries, letters.length], [2, 1], "tries and dead letters");
  same(/^[0-9a-f-]{36}$/.test(letters[0]?.id ?? ""), true, "whether the id of a dead letter is a UUID");
}

async function grantsClaims() {
  const claims = createClaims({ store: memoryStore() });
  const subject = { operation: "charge", key: "order-1" };
  const token = "token-of-the-first-caller";
  const granted = await claims.claim({ ...subject, token });
  same(granted.status, "new");
  same(await claims.complete({ id: granted.id, token, value: "charged" }), true);
  const again = await claims.claim({ ...subject, token: "token-of-another-caller" });
  same(again.status, "completed");
  await claims.close();
}

/** @param {import("nevertwice").Guard} guard */
async function undoesSteps(guard) {
  /** @type {string[]} */
  const log = [];
  const result = await saga(guard, { operation: "trip", key: "trip-1" }, [
    { name: "hotel", run: () => log.push("hotel"), undo: () => log.push("no hotel") },
    {
      name: "flight",
      run() {
        throw new Error("sold out");
      },
    },
  ]);
  same(result.status, "undone");
  same(log, ["hotel", "no hotel"]);
}

/** @param {import("nevertwice").Guard} guard */
async function refusesAnotherDatabase(guard) {
  const request = { operation: "charge", key: "order-1" };
  const isRefused = (/** @type {unknown} */ error) => isNevertwiceError(error, "options-invalid");
  const nothing = /** @type {never} */ ({});
  await rejects(
    guard.transaction(request, nothing, () => 1),
    isRefused,
  );
  const call = async () => once(nothing, { ...request, guard }, () => 1);
  await rejects(call(), isRefused);
}
