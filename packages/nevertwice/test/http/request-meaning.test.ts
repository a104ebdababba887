/** How the meaning of a request is computed: from its bytes, a digest, chosen fields, or a body that a parser has read. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { toFingerprint } from "../../src/core/fingerprint.ts";
import type { RequestBody } from "../../src/http/http-message.ts";
import { type ComparedRequest, type MeaningHow, requestMeaning } from "../../src/http/request-meaning.ts";

const REQUEST: ComparedRequest = { method: "POST", target: "/charges", contentType: "application/json" };
const EMPTY_SHA256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

const bytes = (text: string): RequestBody => ({ kind: "bytes", bytes: Buffer.from(text) });
const parsed = (value: unknown): RequestBody => ({ kind: "parsed", value });
const meaning = (body: RequestBody, how: MeaningHow = "json", request: Partial<ComparedRequest> = {}) =>
  requestMeaning({ ...REQUEST, ...request }, body, how);
const sha256 = (data: string | Uint8Array) => createHash("sha256").update(data).digest("base64");

describe("a request", () => {
  it("FP-07 means its method and its target too", () => {
    expect(meaning(bytes('{"a":1}'))).toEqual(["POST", "/charges", "json", { a: 1 }]);
    expect(meaning(bytes('{"a":1}'), "raw", { method: "PATCH", target: "/charges/1?x=2" })).toEqual([
      "PATCH",
      "/charges/1?x=2",
      "bytes",
      sha256('{"a":1}'),
    ]);
  });

  it("FP-11 means nothing if fingerprints are off", () => {
    expect(meaning(bytes('{"a":1}'), "none")).toBeUndefined();
  });

  it.each<MeaningHow>(["json", "raw", { fields: ["a"] }])(
    "without a body means the same as one with an empty body: %j",
    (how) => {
      const expected = ["POST", "/charges", "bytes", EMPTY_SHA256];
      const types = [undefined, "application/json", "multipart/form-data; boundary=b", "text/plain"];
      for (const contentType of types)
        for (const body of [bytes(""), parsed(undefined), parsed(new Uint8Array()), parsed("")])
          expect(meaning(body, how, { contentType })).toEqual(expected);
    },
  );
});

describe("raw", () => {
  it("FP-05 differs by one extra space", () => {
    expect(meaning(bytes('{"a":1}'), "raw")).not.toEqual(meaning(bytes('{"a": 1}'), "raw"));
  });

  it("FP-06 is the sha-256 of a Content-Digest", () => {
    // The body and the digest are the example of RFC 9530, appendix B.
    const body = bytes('{"hello": "world"}\n');
    const digest = "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=";
    expect(meaning(body, "raw")).toEqual(["POST", "/charges", "bytes", digest]);
    const sent = { contentDigest: `sha-256=:${digest}:` };
    expect(meaning(bytes(""), "content-digest", sent)).toEqual(meaning(body, "raw"));
  });

  it("accepts bytes that are not text", () => {
    const noise = Buffer.from([0xff, 0xfe, 0x00, 0x89]);
    expect(meaning({ kind: "bytes", bytes: noise }, "raw")).toEqual([
      "POST",
      "/charges",
      "bytes",
      sha256(noise),
    ]);
  });

  it("is refused if a parser left no bytes", () => {
    expect(() => meaning(parsed({ a: 1 }), "raw")).toThrow(/^options-invalid: .*in front of the body parser/);
    expect(meaning(parsed(Buffer.from("{ }")), "raw")).toEqual(meaning(bytes("{ }"), "raw"));
    expect(meaning(parsed("{ }"), "raw")).toEqual(meaning(bytes("{ }"), "raw"));
  });
});

describe("content-digest", () => {
  const SHA256 = `:${sha256("x")}:`;
  const SHA512 = `:${createHash("sha512").update("x").digest("base64")}:`;
  const digest = (contentDigest: string | undefined) =>
    meaning(parsed({ a: 1 }), "content-digest", { contentDigest });

  it("is taken from the header, and the body is not read", () => {
    const body = {
      kind: "bytes",
      get bytes(): Uint8Array {
        throw new Error("the body was read");
      },
    } as const;
    expect(meaning(body, "content-digest", { contentDigest: `sha-256=${SHA256}` })).toEqual([
      "POST",
      "/charges",
      "bytes",
      sha256("x"),
    ]);
    expect(digest(`sha-512=${SHA512}`)).toEqual(["POST", "/charges", "sha-512", SHA512.slice(1, -1)]);
  });

  it("prefers sha-256 among several algorithms, in any order", () => {
    for (const header of [
      `sha-256=${SHA256}, sha-512=${SHA512}`,
      `sha-512=${SHA512},\t sha-256=${SHA256};v=1`,
      `md5=:AAAA:, crc=(1 "a";b ?0), flag, sha-256=${SHA256}`,
      `sha-256=:AAAA:, sha-256=${SHA256}`,
      ` sha-256=${SHA256} `,
    ])
      expect(digest(header)).toEqual(digest(`sha-256=${SHA256}`));
  });

  it("reads two spellings of the same base64 as equal", () => {
    expect(digest(`sha-256=${SHA256.replace("=", "")}`)).toEqual(digest(`sha-256=${SHA256}`));
  });

  it.each([
    ["is missing", undefined],
    ["has neither", ""],
    ["has neither", "md5=:AAAA:"],
    ["has neither", "sha=1"],
    ["is malformed", `sha-256=${SHA256},`],
    ["is malformed", `sha-256=${SHA256} sha-512=${SHA512}`],
    ["is malformed", `sha-256=${SHA256}x`],
    ["is malformed", `SHA-256=${SHA256}`],
    ["is malformed", `sha-256=${SHA256}, x=(1`],
    ["is malformed", `sha-256=${SHA256}, x=(1"a")`],
    ["is malformed", `sha-256=${SHA256}, x=(1;A)`],
    ["is malformed", `sha-256=${SHA256};`],
    ["is malformed", `sha-256= ${SHA256}`],
    ["is malformed", `sha-256=${SHA256.slice(0, -1)}`],
    ["has a sha-256 that is not 32 bytes", "sha-256=:AAAA:"],
    ["has a sha-256 that is not 32 bytes", `sha-256=${SHA512}`],
    ["has a sha-256 that is not 32 bytes", `sha-256="${sha256("x")}"`],
    ["has a sha-256 that is not 32 bytes", `sha-256, sha-512=${SHA512}`],
    ["has a sha-256 that is not 32 bytes", `sha-256=(${SHA256})`],
    ["has a sha-512 that is not 64 bytes", `sha-512=${SHA256}`],
  ])("that %s is refused with a hint what to send: %s", (found, header) => {
    expect(() => digest(header)).toThrow(`fingerprint-invalid: the Content-Digest header ${found}`);
    expect(() => digest(header)).toThrow("Content-Digest: sha-256=:base64:");
  });
});

describe("chosen fields", () => {
  const how: MeaningHow = { fields: ["amount", "card.last4"] };

  it("FP-09 leave the others out of the comparison", () => {
    const body = '{"amount":5,"card":{"last4":"4242","expires":"11/30"},"sentAt":1}';
    const other = '{"sentAt":2,"card":{"expires":"12/31","last4":"4242"},"amount":5.0}';
    expect(meaning(bytes(body), how)).toEqual([
      "POST",
      "/charges",
      "fields",
      { amount: 5, "card.last4": "4242" },
    ]);
    expect(meaning(bytes(other), how)).toEqual(meaning(bytes(body), how));
    expect(meaning(bytes(body.replace("4242", "4243")), how)).not.toEqual(meaning(bytes(body), how));
    expect(meaning(parsed(JSON.parse(body)), how)).toEqual(meaning(bytes(body), how));
  });

  it("FP-04 distinguish a missing field from null", () => {
    expect(meaning(bytes('{"amount":null}'), how)).toEqual(["POST", "/charges", "fields", { amount: null }]);
    expect(meaning(bytes("{}"), how)).toEqual(["POST", "/charges", "fields", {}]);
    expect(meaning(bytes('{"card":{}}'), how)).toEqual(["POST", "/charges", "fields", {}]);
    expect(meaning(bytes('{"card":null}'), how)).toEqual(["POST", "/charges", "fields", {}]);
  });

  it("may be elements of an array, and are never inherited members", () => {
    const fields = ["items.0.sku", "items.length", "name.length", "constructor.name", "__proto__.polluted"];
    const body = bytes('{"items":[{"sku":"a"}],"name":"b"}');
    expect(meaning(body, { fields })).toEqual(["POST", "/charges", "fields", { "items.0.sku": "a" }]);
    const own = bytes('{"__proto__":{"polluted":1}}');
    expect(meaning(own, { fields })).toEqual(["POST", "/charges", "fields", { "__proto__.polluted": 1 }]);
  });

  it("mean the same in any order", () => {
    const body = bytes('{"a":1,"b":2}');
    expect(toFingerprint(meaning(body, { fields: ["b", "a"] }))).toBe(
      toFingerprint(meaning(body, { fields: ["a", "b"] })),
    );
  });

  it("apply to JSON only: any other body is compared by its bytes", () => {
    const raw = ["POST", "/charges", "bytes", sha256("amount=5")];
    expect(meaning(bytes("amount=5"), how)).toEqual(raw);
    expect(meaning(bytes("amount=5"), how, { contentType: "application/x-www-form-urlencoded" })).toEqual(
      raw,
    );
    expect(meaning(bytes("amount=5"), how, { contentType: "multipart/form-data; boundary=b" })).toEqual(raw);
  });
});

describe("a body that an earlier parser has read", () => {
  it("means the same as its JSON", () => {
    for (const text of ['{"a":[1,null,{"b":"c"}]}', "[]", "5", "true", "null", '{"__proto__":1}'])
      expect(toFingerprint(meaning(parsed(JSON.parse(text))))).toBe(toFingerprint(meaning(bytes(text))));
    expect(meaning(parsed({ a: "1" }), "json", { contentType: "application/x-www-form-urlencoded" })).toEqual(
      ["POST", "/charges", "json", { a: "1" }],
    );
  });

  it("means the same as its bytes if the parser left bytes", () => {
    expect(meaning(parsed(Buffer.from('{ "a": 1 }')))).toEqual(meaning(bytes('{"a":1}')));
    expect(meaning(parsed(new Uint8Array([0xff])))).toEqual([
      "POST",
      "/charges",
      "bytes",
      sha256(Buffer.of(0xff)),
    ]);
  });

  it("is compared by its UTF-8 bytes if it is text: the string 1 is not the number", () => {
    expect(meaning(parsed("1"))).toEqual(["POST", "/charges", "bytes", sha256("1")]);
    expect(meaning(parsed("\u20ac"))).toEqual(["POST", "/charges", "bytes", sha256(Buffer.from("\u20ac"))]);
    expect(meaning(parsed("1"))).not.toEqual(meaning(parsed(1)));
  });

  it("is refused by the engine if JSON cannot represent it", () => {
    for (const value of [new Date(0), [undefined], 1n, () => 1, "\ud800", new Map()])
      expect(() => toFingerprint(meaning(parsed(value)))).toThrow(/^fingerprint-invalid/);
  });

  it("is refused if it was multipart, since its files are missing", () => {
    const request = { contentType: "Multipart/Form-Data; boundary=b" };
    expect(() => meaning(parsed({ title: "a" }), "json", request)).toThrow(
      /^options-invalid: a multipart body is compared with its files/,
    );
    expect(meaning(parsed({ title: "a" }), { fields: ["title"] }, request)).toEqual([
      "POST",
      "/charges",
      "fields",
      { title: "a" },
    ]);
  });
});

describe("FP-12 a key inside the body", () => {
  const without = (body: RequestBody, how: MeaningHow = "json") =>
    requestMeaning(REQUEST, body, how, "request_id");

  it("does not count as part of the body", () => {
    const expected = ["POST", "/charges", "json", { amount: 5 }];
    expect(without(bytes('{"request_id":"k-1","amount":5}'))).toEqual(expected);
    expect(without(bytes('{"amount":5}'))).toEqual(expected);
    expect(without(bytes('{"request\\u005fid":"k-2","amount":5}'))).toEqual(expected);
  });

  it("does not affect nested members of the same name, nor the handler's value", () => {
    const value = Object.freeze({ request_id: "k-1", order: Object.freeze({ request_id: "k-2" }) });
    expect(without(parsed(value))).toEqual(["POST", "/charges", "json", { order: { request_id: "k-2" } }]);
    expect(value.request_id).toBe("k-1");
  });

  it("does not affect the other members", () => {
    const body = '{"request_id":1,"__proto__":{"a":1},"constructor":2}';
    expect(JSON.stringify(without(bytes(body)))).toBe(
      '["POST","/charges","json",{"__proto__":{"a":1},"constructor":2}]',
    );
    for (const other of ["[1]", "5", "null", '"0"'])
      expect(requestMeaning(REQUEST, bytes(other), "json", "0")).toEqual(meaning(bytes(other)));
  });
});

describe("a content type", () => {
  const JSON_TEXT = '{ "a": 1 }';
  const kindOf = (contentType: string | undefined) =>
    (meaning(bytes(JSON_TEXT), "json", { contentType }) as unknown[])[2];

  it.each([
    "application/json",
    "Application/JSON",
    "application/json;charset=utf-8",
    "application/json; charset=UTF-8",
    'application/json ; charset="utf-8"',
    "application/json;",
    " application/json\t",
    "application/merge-patch+json",
    "application/vnd.shop.v2+JSON; version=1",
  ])("of JSON is %s", (contentType) => {
    expect(kindOf(contentType)).toBe("json");
  });

  it.each([
    undefined,
    "",
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/jsonp",
    "application/json-patch",
    "+json",
    "application/+json",
    "application/json, application/json",
    "application/json; charset=latin1",
    "application/json; charset=utf-16",
    "application/json; charset=utf-8; charset=utf-8",
    'application/json; charset="utf-8',
    "application/json charset=utf-8",
    "multipart/form-data",
  ])("of bytes is %s", (contentType) => {
    expect(kindOf(contentType)).toBe("bytes");
  });
});
