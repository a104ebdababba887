/**
 * Tests outcomes as text: a value comes back as plain data equal to what went in, and a value that cannot be stored
 * is reported.
 */
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeOutcome, encodeOutcome, FORGOTTEN, notKept } from "../../src/core/outcome.ts";

const MAX_BYTES = 1_048_576;

function kept(kind: "value" | "thrown", content: unknown, maxBytes = MAX_BYTES) {
  const encoded = encodeOutcome(kind, content, maxBytes);
  if (!encoded.kept) throw new Error(`not kept: ${encoded.reason}: ${encoded.detail}`);
  return encoded;
}

/** Returns the value that a duplicate gets. */
function replayed(value: unknown): unknown {
  const outcome = decodeOutcome(kept("value", value).text);
  if (outcome.kind !== "value") throw new Error(`read back as ${outcome.kind}`);
  return outcome.value;
}

/** Returns the error that is thrown to a duplicate. */
function rethrown(error: unknown): Error & { code?: unknown } {
  const outcome = decodeOutcome(kept("thrown", error).text);
  if (outcome.kind !== "thrown") throw new Error(`read back as ${outcome.kind}`);
  return outcome.error as Error & { code?: unknown };
}

const leaf = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("\ud83d", "__proto__", "$"),
  fc.double(),
  fc.constantFrom(-0, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
  fc.boolean(),
  fc.constantFrom(null, undefined),
  fc.bigInt(),
  fc.date({ noInvalidDate: true }),
  fc.uint8Array(),
);
const names = fc.oneof(
  fc.string(),
  fc.constantFrom("__proto__", "constructor", "$", "v", "toString", "then", "length", "0"),
);
const { rich } = fc.letrec<{ rich: unknown }>((tie) => ({
  rich: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    fc.array(tie("rich"), { maxLength: 4 }),
    fc.array(fc.tuple(names, tie("rich")), { maxLength: 4 }).map((members) => Object.fromEntries(members)),
    fc.array(fc.tuple(tie("rich"), tie("rich")), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(tie("rich"), { maxLength: 3 }).map((elements) => new Set(elements)),
  ),
}));

describe("a frame", () => {
  test.each<[value: unknown, frame: string]>([
    [null, '["1vp",null]'],
    ["€", '["1vp","€"]'],
    [{ id: 7, lines: [1, "a", true] }, '["1vp",{"id":7,"lines":[1,"a",true]}]'],
    ["\ud83d", String.raw`["1vp","\ud83d"]`],
    [undefined, '["1vt",{"$":"undefined"}]'],
    [-0, '["1vt",{"$":"number","v":"-0"}]'],
    [Number.NaN, '["1vt",{"$":"number","v":"NaN"}]'],
    [[12n], '["1vt",[{"$":"bigint","v":"12"}]]'],
    [new Date(0), '["1vt",{"$":"date","v":0}]'],
    [new Date(Number.NaN), '["1vt",{"$":"date","v":null}]'],
    [new Map([["a", 1]]), '["1vt",{"$":"map","v":[["a",1]]}]'],
    [new Set(["a"]), '["1vt",{"$":"set","v":["a"]}]'],
    [{ a: undefined, b: [{ c: 1n }] }, '["1vt",{"a":{"$":"undefined"},"b":[{"c":{"$":"bigint","v":"1"}}]}]'],
    [JSON.parse('{"a":1,"__proto__":2}'), '["1vt",{"$":"object","v":[["a",1],["__proto__",2]]}]'],
    [{ $: "date" }, '["1vt",{"$":"object","v":[["$","date"]]}]'],
    [new TypeError("no"), '["1vt",{"$":"error","v":{"name":"TypeError","message":"no"}}]'],
    [new Uint8Array([65, 66]), '["1vt",{"$":"bytes","v":"QUI="}]'],
  ])("of %o never changes between versions", (value, frame) => {
    expect(kept("value", value).text).toBe(frame);
  });

  test("of a thrown value says that it was thrown", () => {
    expect(kept("thrown", "no").text).toBe('["1tp","no"]');
    expect(kept("thrown", new Error("no")).text).toBe(
      '["1tt",{"$":"error","v":{"name":"Error","message":"no"}}]',
    );
  });

  test("of an outcome that is not stored says why", () => {
    expect(notKept("too-large")).toBe('["1np",{"reason":"too-large"}]');
    expect(FORGOTTEN).toBe('["1np",{"reason":"forgotten"}]');
    expect(decodeOutcome(FORGOTTEN)).toEqual({ kind: "not-kept", reason: "forgotten" });
  });

  test.each([
    ["of another format", '["2vp",null]'],
    ["of another kind", '["1xp",null]'],
    ["without a format", "null"],
    ["that is empty", ""],
    ["with an empty header", '["",null]'],
    ["that was cut off", '["1vp",{"receipt":'],
    ["that is not a list", '{"1vp":null}'],
    ["of control characters", "\u0000\u0001\u0002"],
    ["whose format is a multi-byte character", '["€vp",null]'],
    ["of another shape", '["1vz",null]'],
    ["with a tag of a later version", '["1vt",{"$":"url","v":"https://example.org"}]'],
  ])("%s is unreadable, and reads as done without an outcome", (_, frame) => {
    expect(decodeOutcome(frame)).toEqual({ kind: "not-kept", reason: "unreadable" });
  });

  test("starts with its format and its kind, and is well-formed text without U+0000 for any content", () => {
    fc.assert(
      fc.property(rich, (value) => {
        const { text } = kept("value", value);
        expect(text).toMatch(/^\["1v[pt]",/);
        expect(text.isWellFormed() && !text.includes("\0")).toBe(true);
      }),
      { numRuns: 300 },
    );
    expect(kept("value", "\0\ud83d").text).toBe(String.raw`["1vp","\u0000\ud83d"]`);
  });
});

describe("a replayed value equals the original", () => {
  test("for any content", () => {
    fc.assert(
      fc.property(rich, (value) => {
        expect(isDeepStrictEqual(replayed(value), value)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  test("and the first caller gets the same value as a duplicate, in its own copy", () => {
    fc.assert(
      fc.property(rich, (value) => {
        const { content } = kept("value", value);
        expect(isDeepStrictEqual(content, replayed(value))).toBe(true);
        if (typeof value === "object" && value !== null) expect(content).not.toBe(value);
      }),
      { numRuns: 300 },
    );
  });

  test("and the copy shares nothing with the first caller's value", () => {
    for (const extra of [null, undefined]) {
      const value = { list: [{ deep: [1] }], extra };
      const content = kept("value", value).content as typeof value;
      value.list[0]?.deep.push(2);
      expect(content).toStrictEqual({ list: [{ deep: [1] }], extra });
    }
  });

  test("and an invalid Date stays invalid", () => {
    const [date] = replayed([new Date(Number.NaN)]) as [Date];
    expect(date).toBeInstanceOf(Date);
    expect(date.getTime()).toBeNaN();
  });

  test("and the first caller's copy equals the replay even if the value changes with every read", () => {
    let reads = 0;
    const value = {
      get count() {
        return ++reads;
      },
    };
    const { text, content } = kept("value", value);
    expect(decodeOutcome(text)).toEqual({ kind: "value", value: content });
  });

  test("bytes of every kind come back as a Uint8Array that shares no memory", () => {
    const source = Buffer.from([1, 2, 3, 4]);
    const { content } = kept("value", { part: source.subarray(1, 3) });
    source.fill(9);
    expect(content).toStrictEqual({ part: new Uint8Array([2, 3]) });
    expect(Object.getPrototypeOf((content as { part: object }).part)).toBe(Uint8Array.prototype);
  });

  test("several byte arrays come back in their places", () => {
    const value = [
      new Uint8Array([1]),
      new Uint8Array(),
      new Uint8Array([2, 3]),
      "🔑",
      new Uint8Array([255]),
    ];
    expect(replayed(value)).toStrictEqual(value);
  });

  test("names with a special meaning come back as own data", () => {
    const value = JSON.parse('{"__proto__":{"isAdmin":true},"constructor":1,"$":"date","v":0}');
    for (const each of [value, { deep: [value, undefined] }]) expect(replayed(each)).toStrictEqual(each);
    const back = replayed(value) as Record<string, unknown>;
    expect(Object.keys(back)).toEqual(["__proto__", "constructor", "$", "v"]);
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(back.isAdmin).toBeUndefined();
  });

  test("a Map comes back with objects as keys and with its entries in order", () => {
    const back = replayed(
      new Map<unknown, unknown>([
        [{ a: 1 }, "object"],
        [Number.NaN, "NaN"],
        ["z", 1],
      ]),
    );
    expect([...(back as Map<unknown, unknown>)]).toStrictEqual([
      [{ a: 1 }, "object"],
      [Number.NaN, "NaN"],
      ["z", 1],
    ]);
  });

  test("an object without a prototype comes back as a plain one", () => {
    const bare = Object.assign(Object.create(null), { a: 1 });
    expect(replayed(bare)).toStrictEqual({ a: 1 });
  });

  test("a hole in an array comes back as undefined", () => {
    expect(replayed(new Array(2))).toStrictEqual([undefined, undefined]);
  });

  test("a value used twice comes back as two equal values", () => {
    const address = { city: "Wien" };
    expect(replayed({ from: address, to: address })).toStrictEqual({
      from: { city: "Wien" },
      to: { city: "Wien" },
    });
  });
});

test("prototype-pollution: no frame can change what all objects inherit", () => {
  const frames = [
    '["1vp",{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}]',
    '["1vt",{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}]',
    '["1vt",{"$":"object","v":[["__proto__",{"polluted":1}],["constructor",{"prototype":{"polluted":1}}]]}]',
    '["1tt",{"$":"error","v":{"name":"Error","message":"no","code":1,"__proto__":{"polluted":1},"cause":{"__proto__":{"polluted":1}}}}]',
  ];
  for (const frame of frames) {
    const outcome = decodeOutcome(frame);
    const content =
      outcome.kind === "value" ? outcome.value : outcome.kind === "thrown" ? outcome.error : undefined;
    expect((content as { polluted?: unknown }).polluted).toBeUndefined();
    if (outcome.kind === "value") {
      expect(Object.getOwnPropertyDescriptor(content, "__proto__")?.value).toEqual({ polluted: 1 });
    }
  }
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
});

class Declined extends RangeError {
  override readonly name = "Declined";
  readonly code = "card_declined";
  readonly secret = "not kept";
}

describe("an error is replayed", () => {
  test("as a plain Error with its name, message and code, and never as its class", () => {
    const error = rethrown(new Declined("no funds"));
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(RangeError);
    expect(Object.getPrototypeOf(error)).toBe(Error.prototype);
    expect(error).toMatchObject({ name: "Declined", message: "no funds", code: "card_declined" });
    expect("secret" in error).toBe(false);
    expect(Object.keys(error)).toEqual(["code"]);
    expect(String(error)).toBe("Declined: no funds");
    expect(Object.getOwnPropertyDescriptor(error, "name")).toEqual({
      value: "Declined",
      writable: true,
      enumerable: false,
      configurable: true,
    });
  });

  test("with its chain of causes, whatever they are", () => {
    const root = Object.assign(new Error("socket"), { code: 104 });
    const error = rethrown(
      new Error("charge", { cause: new Error("request", { cause: [root, { at: new Date(5) }] }) }),
    );
    const request = error.cause as Error;
    expect(request.message).toBe("request");
    const [socket, where] = request.cause as [Error & { code: number }, unknown];
    expect([socket.message, socket.code]).toEqual(["socket", 104]);
    expect(where).toStrictEqual({ at: new Date(5) });
  });

  test("without a cause if it had none, and with null if its cause was null", () => {
    expect("cause" in rethrown(new Error("no"))).toBe(false);
    expect(rethrown(new Error("no", { cause: null })).cause).toBe(null);
  });

  test.each<[what: string, cause: unknown]>([
    ["a function", () => {}],
    ["a class instance", new (class Socket {})()],
    ["a symbol deep inside", { a: [{ b: Symbol("s") }] }],
    [
      "a member that throws when it is read",
      {
        get body() {
          throw new Error("already read");
        },
      },
    ],
  ])("without a cause that cannot be stored: %s", (_, cause) => {
    const error = rethrown(new Declined("no funds", { cause }));
    expect(error).toMatchObject({ name: "Declined", message: "no funds", code: "card_declined" });
    expect("cause" in error).toBe(false);
  });

  test("without the bytes of a cause that is left out", () => {
    const cause = { body: new Uint8Array(500), socket: () => {} };
    expect(kept("thrown", new Error("no", { cause }), 100).text).toBe(
      '["1tt",{"$":"error","v":{"name":"Error","message":"no"}}]',
    );
  });

  test("from a cycle of causes, cut at some point", () => {
    const error = new Error("first");
    error.cause = new Error("second", { cause: error });
    expect((rethrown(error).cause as Error).message).toBe("second");
  });

  test("with a code only if it is a string or a number", () => {
    expect(rethrown(Object.assign(new Error("no"), { code: 5 })).code).toBe(5);
    for (const code of [{ deep: 1 }, true, null, 5n, () => {}]) {
      expect("code" in rethrown(Object.assign(new Error("no"), { code }))).toBe(false);
    }
  });

  test("without the errors of an AggregateError", () => {
    const error = rethrown(new AggregateError([new Error("a"), new Error("b")], "all failed"));
    expect(error).toMatchObject({ name: "AggregateError", message: "all failed" });
    expect("errors" in error).toBe(false);
  });

  test("inside a value", () => {
    const back = replayed({ results: [new Declined("no funds")] }) as {
      results: (Error & { code: string })[];
    };
    expect(back.results[0]).toBeInstanceOf(Error);
    expect(back.results[0]).toMatchObject({ name: "Declined", code: "card_declined" });
  });

  test.each(["text", 7, null, undefined, { reason: "declined" }, [1n]])(
    "even if the thrown value is not an error: %o",
    (thrown) => {
      expect(rethrown(thrown)).toStrictEqual(thrown);
    },
  );
});

const circle: unknown[] = [];
circle.push({ circle });

describe("refuses to encode", () => {
  test.each<[what: string, value: unknown, detail: string]>([
    ["a function", () => {}, "a function cannot be stored"],
    ["a function inside", { next: [() => {}] }, "a function cannot be stored"],
    ["a symbol", Symbol("s"), "a symbol cannot be stored"],
    [
      "a symbol as a member name",
      { [Symbol("s")]: 1 },
      "an object with a symbol as a member name cannot be stored",
    ],
    [
      "an instance of a class",
      new (class Order {})(),
      "an instance of Order cannot be stored; return plain data",
    ],
    [
      "an object whose prototype is another object",
      Object.create({ a: 1 }),
      "an instance of Object cannot be stored",
    ],
    ["a promise", Promise.resolve(1), "an instance of Promise cannot be stored"],
    ["a WeakMap", new WeakMap(), "an instance of WeakMap cannot be stored"],
    ["a regular expression", /a/, "an instance of RegExp cannot be stored"],
    ["a URL", new URL("https://example.org"), "an instance of URL cannot be stored"],
    ["a boxed number", new Object(1), "an instance of Number cannot be stored"],
    ["two-byte numbers", new Uint16Array(1), "an instance of Uint16Array cannot be stored"],
    ["signed bytes", new Int8Array(1), "an instance of Int8Array cannot be stored"],
    ["clamped bytes", new Uint8ClampedArray(1), "an instance of Uint8ClampedArray cannot be stored"],
    ["a buffer without a view", new ArrayBuffer(1), "an instance of ArrayBuffer cannot be stored"],
    ["a view", new DataView(new ArrayBuffer(1)), "an instance of DataView cannot be stored"],
    ["an array with a named member", "abc".match(/b/), ""],
    ["a circular value", circle, "nested deeper than 256 levels, or circular"],
    ["a cycle through a Map", new Map([["self", circle]]), "nested deeper than 256 levels, or circular"],
  ])("%s", (_, value, detail) => {
    const encoded = encodeOutcome("value", value, MAX_BYTES);
    expect(encoded).toEqual({
      kept: false,
      reason: "not-encodable",
      detail: expect.stringContaining(detail),
    });
  });

  test.each<[what: string, thrown: unknown, detail: string]>([
    ["an error", new Error("already read"), "already read"],
    ["text", "already read", "already read"],
    ["nothing", undefined, "undefined"],
    ["an object that cannot become a string", Object.create(null), ""],
  ])("a member whose getter throws: %s", (_, thrown, detail) => {
    const value = {
      get body() {
        throw thrown;
      },
    };
    const encoded = encodeOutcome("value", value, MAX_BYTES);
    expect(encoded).toEqual({
      kept: false,
      reason: "not-encodable",
      detail: expect.stringContaining(detail),
    });
  });

  test("a revoked proxy", () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(encodeOutcome("value", proxy, MAX_BYTES)).toMatchObject({ kept: false, reason: "not-encodable" });
  });
});

describe("the limit", () => {
  test.each<[what: string, value: unknown, size: number]>([
    ["text", "a".repeat(95), 105],
    ["text with multi-byte characters", `${"€".repeat(31)}aa`, 105],
    ["tagged text", ["a".repeat(75), undefined], 105],
    ["bytes", new Uint8Array(57), 104],
  ])("counts the bytes of the whole frame: %s", (_, value, size) => {
    expect(Buffer.byteLength(kept("value", value, size).text)).toBe(size);
    expect(encodeOutcome("value", value, size - 1)).toEqual({
      kept: false,
      reason: "too-large",
      detail: `${size} bytes, but at most ${size - 1} may be stored`,
    });
  });

  test("also applies to a value with too many parts", () => {
    const value = new Array(1_000).fill(undefined);
    expect(encodeOutcome("value", value, 100)).toMatchObject({ kept: false, reason: "too-large" });
  });

  test("allows 257 levels of lists, objects and both", () => {
    expect(kept("value", nested(256)).text).toBe(`["1vp",${"[".repeat(256)}${"]".repeat(256)}]`);
    expect(kept("value", nested(257)).text).toBe(`["1vt",${"[".repeat(257)}${"]".repeat(257)}]`);
    expect(kept("value", { a: nested(255) }).text).toBe(`["1vp",{"a":${"[".repeat(255)}${"]".repeat(255)}}]`);
    expect(kept("value", { a: nested(256) }).text).toBe(`["1vt",{"a":${"[".repeat(256)}${"]".repeat(256)}}]`);
  });

  test("refuses 258 levels", () => {
    expect(encodeOutcome("value", nested(258), MAX_BYTES)).toMatchObject({
      kept: false,
      reason: "not-encodable",
    });
  });
});

describe("dag-bomb: encoding a small value that expands to a huge text ends quickly", () => {
  /** Doubles at each level: as many objects as levels have 2^levels leaves. The leaf counts how often it is read. */
  function bomb(levels: number, filling: unknown): { value: unknown; reads: () => number } {
    let reads = 0;
    let value: unknown = {
      get leaf() {
        reads++;
        return filling;
      },
    };
    for (let i = 0; i < levels; i++) value = [value, value];
    return { value, reads: () => reads };
  }

  test.each<[what: string, filling: unknown]>([
    ["of values that need tags", undefined],
    ["of plain JSON", "a"],
  ])("%s", (_, filling) => {
    const { value, reads } = bomb(18, filling);
    expect(encodeOutcome("value", value, 1_000)).toMatchObject({ kept: false });
    expect(reads()).toBeLessThanOrEqual(2_000);
  });
});

function nested(levels: number): unknown {
  let value: unknown = [];
  for (let i = 1; i < levels; i++) value = [value];
  return value;
}
