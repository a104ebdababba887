/** Tests which requests count as equal under one key: which parts of method, target, headers and body are compared. */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { HeaderLine } from "../../../src/http/http-message.ts";
import { memoryStore } from "../../../src/stores/memory.ts";
import { REPLAYED } from "../replayed-header.ts";
import { type Sent, type ServiceOptions, serve } from "./service.ts";

const JSON_TYPE: HeaderLine = ["Content-Type", "application/json"];

/** Sends both under one key, and returns whether the second one was a replay. */
async function areOne(first: Sent, second: Sent, options: ServiceOptions["options"] = {}): Promise<boolean> {
  const service = await serve({ options });
  const answer = await service.send({ key: "k", ...first });
  expect(answer.status).toBe(201);
  const again = await service.send({ key: "k", ...second });
  if (again.status === 422) {
    expect([again.json().code, service.runs()]).toEqual(["conflict", 1]);
    return false;
  }
  expect([again.status, again.text, again.header(REPLAYED)]).toEqual([201, answer.text, "true"]);
  expect(service.runs()).toBe(1);
  return true;
}

const json = (body: string): Sent => ({ body, headers: [JSON_TYPE] });

describe("a JSON body", () => {
  test("FP-01 is equal with its members in another order and with other white space", async () => {
    const first = json('{"a":1,"b":{"c":[1,2],"d":"x"}}');
    const second = json('{ "b" : {"d":"\\u0078", "c":[1, 2]},\n "a":1 }');
    expect(await areOne(first, second)).toBe(true);
  });

  test("FP-02 is equal with a number spelt in another way", async () => {
    expect(await areOne(json('{"amount":1.0}'), json('{"amount":1}'))).toBe(true);
    expect(await areOne(json('{"amount":100}'), json('{"amount":1e2}'))).toBe(true);
    expect(await areOne(json('{"amount":1}'), json('{"amount":1.01}'))).toBe(false);
  });

  test("FP-03 differs by the order of an array", async () => {
    expect(await areOne(json("[1,2]"), json("[2,1]"))).toBe(false);
  });

  test("FP-04 differs by a null in place of a missing member", async () => {
    expect(await areOne(json('{"a":1,"b":null}'), json('{"a":1}'))).toBe(false);
  });

  test("FP-13 is compared by its bytes if a parser would lose a part of it", async () => {
    const twice = json('{"a":1,"a":2}');
    expect(await areOne(twice, twice)).toBe(true);
    expect(await areOne(twice, json('{"a":2}'))).toBe(false);
    expect(await areOne(twice, json('{"a":3,"a":2}'))).toBe(false);
    const large = json('{"id":9007199254740993}');
    expect(await areOne(large, large)).toBe(true);
    expect(await areOne(large, json('{"id":9007199254740992}'))).toBe(false);
    expect(await areOne(large, json('{"id":9007199254740994}'))).toBe(false);
  });
});

describe("a body compared by its bytes", () => {
  test("FP-05 differs by one space", async () => {
    const options = { fingerprint: "raw" } as const;
    expect(await areOne(json('{"a":1}'), json('{"a":1}'), options)).toBe(true);
    expect(await areOne(json('{"a":1}'), json('{"a": 1}'), options)).toBe(false);
  });

  test("FP-06 is equal if its Content-Digest is equal", async () => {
    const body = Buffer.from([0, 1, 2, 255, 254, 10, 13]);
    const digest = createHash("sha256").update(body).digest("base64");
    const other = createHash("sha256").update("other").digest("base64");
    const store = memoryStore();
    const bytes = await serve({ store, options: { fingerprint: "raw", operation: "upload" } });
    const digests = await serve({ store, options: { fingerprint: "content-digest", operation: "upload" } });
    await bytes.send({ key: "k", body });
    const same = await digests.send({ key: "k", body, headers: [["Content-Digest", `sha-256=:${digest}:`]] });
    expect([same.status, same.header(REPLAYED)]).toEqual([201, "true"]);
    const changed = await digests.send({
      key: "k",
      body,
      headers: [["Content-Digest", `sha-256=:${other}:`]],
    });
    expect(changed.status).toBe(422);
    expect([bytes.runs(), digests.runs()]).toEqual([1, 0]);
  });
});

describe("the rest of a request", () => {
  test("FP-07 with another method or path is another operation or a conflict, and never gets the first answer", async () => {
    const service = await serve();
    const orders = await service.send({ key: "k", path: "/orders" });
    for (const other of [{ path: "/refunds" }, { path: "/orders/1" }, { method: "PATCH" }]) {
      const answer = await service.send({ key: "k", ...other });
      expect([answer.status, answer.header(REPLAYED)]).toEqual([201, undefined]);
      expect(answer.text).not.toBe(orders.text);
    }
    expect(service.runs()).toBe(4);
    expect(await areOne({ path: "/orders?currency=eur" }, { path: "/orders?currency=usd" })).toBe(false);
    // If they share one operation, their meaning differs.
    const options = { operation: "shop" };
    expect(await areOne({ path: "/orders" }, { path: "/refunds" }, options)).toBe(false);
    expect(await areOne({ method: "POST" }, { method: "PATCH" }, options)).toBe(false);
  });

  test("FP-08 with other headers for tracing, client or date is equal", async () => {
    const of = (trace: string, date: string): Sent => ({
      headers: [
        ["Traceparent", `00-${trace.repeat(32)}-${trace.repeat(16)}-01`],
        ["Authorization", `Bearer ${trace}`],
        ["Date", date],
        ["X-Request-Id", trace],
        ["User-Agent", trace],
        ["Accept-Encoding", trace],
      ],
    });
    expect(
      await areOne(of("a", "Thu, 01 Jan 2026 00:00:00 GMT"), of("b", "Fri, 02 Jan 2026 00:00:00 GMT")),
    ).toBe(true);
  });
});

describe("a part of a body", () => {
  test("FP-09 that is not in fingerprint.fields may differ", async () => {
    const options = { fingerprint: { fields: ["amount", "card.last4"] } };
    const first = { amount: 1, card: { last4: "4242", holder: "A" }, note: "one" };
    expect(await areOne({ body: first }, { body: { ...first, note: "two" } }, options)).toBe(true);
    expect(await areOne({ body: first }, { body: { ...first, amount: 2 } }, options)).toBe(false);
    const otherCard = { ...first, card: { last4: "1111", holder: "A" } };
    expect(await areOne({ body: first }, { body: otherCard }, options)).toBe(false);
  });

  test("FP-10 that is the boundary of a form may differ", async () => {
    const file = "line one\r\n--looks-like-a-boundary\r\nline three";
    expect(await areOne(form("AaB03x", file), form("----xYz987", file))).toBe(true);
    expect(await areOne(form("AaB03x", file), form("AaB03x", `${file}.`))).toBe(false);
  });

  test("FP-11 and even all of it may differ without a fingerprint", async () => {
    expect(await areOne({ body: { amount: 1 } }, { body: { amount: 2 } }, { fingerprint: "none" })).toBe(
      true,
    );
  });

  test("FP-12 that is the key itself is not compared", async () => {
    const service = await serve({ options: { keyField: "idempotency_key", operation: "order" } });
    const first = await service.send({ body: { idempotency_key: "k1", amount: 1 } });
    const again = await service.send({ body: { amount: 1, idempotency_key: "k1" } });
    expect([again.text, again.header(REPLAYED)]).toEqual([first.text, "true"]);
    const changed = await service.send({ body: { idempotency_key: "k1", amount: 2 } });
    expect(changed.status).toBe(422);
    const fingerprints: (string | undefined)[] = [];
    for (const key of ["k1", "k2"]) {
      const store = memoryStore();
      const other = await serve({ store, options: { keyField: "idempotency_key", operation: "order" } });
      await other.send({ body: { idempotency_key: key, amount: 1 } });
      const page = await store.list?.({ namespace: "default", limit: 10 });
      fingerprints.push(page?.records[0]?.fingerprint);
    }
    expect(fingerprints[0]).toBeTypeOf("string");
    expect(fingerprints[1]).toBe(fingerprints[0]);
  });
});

function form(boundary: string, file: string): Sent {
  const body = [
    `--${boundary}`,
    'Content-Disposition: form-data; name="amount"',
    "",
    "100",
    `--${boundary}`,
    'Content-Disposition: form-data; name="slip"; filename="slip.txt"',
    "Content-Type: text/plain",
    "",
    file,
    `--${boundary}--`,
    "",
  ].join("\r\n");
  return { body, headers: [["Content-Type", `multipart/form-data; boundary=${boundary}`]] };
}
