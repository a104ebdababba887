/** Tests values that cannot be stored: when a warning is printed, and how encode and decode convert such values. */
import { afterAll, afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { describeUnkeepable } from "../../src/core/describe-unkeepable.ts";
import { createGuard, type RunRequest } from "../../src/index.ts";
import { memoryStore } from "../../src/stores/memory.ts";

class Money {
  readonly cents: number;
  constructor(cents: number) {
    this.cents = cents;
  }
  get euros(): number {
    return this.cents / 100;
  }
}

const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
afterAll(async () => {
  await guard.close();
});

const warnings: Error[] = [];
const onWarning = (warning: Error) => {
  if (warning.name === "NevertwiceWarning") warnings.push(warning);
};
/** Node emits a warning in the turn after the one that created it. */
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  warnings.length = 0;
  process.on("warning", onWarning);
});
afterEach(() => {
  process.off("warning", onWarning);
});

describe("a value that cannot be replayed", () => {
  test("prints a warning at its first completion, once per operation, with its path and class", async () => {
    for (const key of ["1", "2"])
      await guard.run({ operation: "pay", key }, () => ({ user: { paid: new Money(5) } }));
    await guard.run({ operation: "refund", key: "1" }, () => [() => {}]);
    await nextTurn();
    expect(warnings.map(({ message }) => message)).toEqual([
      'operation "pay": the value that its work returned cannot be replayed: $.user.paid is an instance of Money. Duplicates are refused with "not-kept". Return plain data, or give encode and decode (docs/options.md).',
      expect.stringContaining("$[0] is a function."),
    ]);
  });

  test("prints no warning if it is stored, shortened or encoded", async () => {
    await guard.run({ operation: "plain", key: "1" }, () => ({ at: new Date(), tags: new Set(["a"]) }));
    const shorten = () => "short";
    await guard.run({ operation: "short", key: "1", shorten }, () => new Money(1));
    const encode = (money: Money) => money.cents;
    const decode = (cents: number) => new Money(cents);
    await guard.run({ operation: "coded", key: "1", encode, decode }, () => new Money(1));
    await nextTurn();
    expect(warnings).toEqual([]);
  });

  test.each<[value: unknown, described: string]>([
    [new Money(1), "$ is an instance of Money"],
    [{ a: [{ "b c": Symbol("s") }] }, '$.a[0]["b c"] is a symbol'],
    [new Map([["m", new Money(1)]]), '$.get("m") is an instance of Money'],
    [new Set([new Money(1)]), "$ (a member of the set) is an instance of Money"],
    [{ stream: new ReadableStream() }, "$.stream is an instance of ReadableStream"],
    [{ [Symbol("s")]: 1 }, "$ is nested too deep, circular, or has member names that cannot be stored"],
  ])("%o is described by its first part that cannot be stored", (value, described) => {
    expect(describeUnkeepable(value)).toBe(described);
  });

  test("the description of a circular value is finite", () => {
    const value: Record<string, unknown> = {};
    value.self = value;
    expect(describeUnkeepable(value)).toContain("circular");
  });
});

describe("encode and decode", () => {
  const codec = {
    encode: (money: Money) => ({ cents: money.cents }),
    decode: ({ cents }: { readonly cents: number }) => new Money(cents),
  };
  const request = (key: string) => ({ operation: "coded", key, ...codec });

  test("return an instance to the first caller and to its duplicates", async () => {
    const first = await guard.run(request("a"), () => new Money(250));
    const second = await guard.run(request("a"), () => new Money(0));
    for (const money of [first, second]) {
      expect(money).toBeInstanceOf(Money);
      expect(money.euros).toBe(2.5);
    }
    const record = await guard.read({ operation: "coded", key: "a" });
    expect(record?.outcome).toMatchObject({ kind: "value", value: { cents: 250 } });
  });

  test("work with wrap, and are typed by the wrapped function", async () => {
    const price = guard.wrap(async (id: string) => new Money(id.length), {
      operation: "price",
      key: (id) => id,
      encode: (money) => {
        expectTypeOf(money).toEqualTypeOf<Money>();
        return money.cents;
      },
      decode: (cents: number) => new Money(cents),
    });
    expectTypeOf(price).toEqualTypeOf<(id: string) => Promise<Money>>();
    await price("four");
    expect((await price("four")).euros).toBe(0.04);
  });

  test("an encode that throws does not undo the work: a duplicate gets not-kept", async () => {
    const encode = () => {
      throw new Error("no way");
    };
    const broken = { ...request("b"), operation: "broken", encode };
    expect(await guard.run(broken, () => new Money(1))).toEqual(new Money(1));
    expect(await guard.tryRun(broken, () => new Money(2))).toEqual({
      status: "not-kept",
      reason: "not-encodable",
    });
    await nextTurn();
    expect(warnings[0]?.message).toContain("encode threw: no way");
  });

  test("a decode that throws returns not-kept to a duplicate, and is never an error of the work", async () => {
    const decode = (): Money => {
      throw new Error("unknown form");
    };
    const broken = { ...request("c"), operation: "broken decode", decode };
    expect(await guard.run(broken, () => new Money(1))).toEqual(new Money(1));
    expect(await guard.tryRun(broken, () => new Money(2))).toEqual({
      status: "not-kept",
      reason: "unreadable",
    });
  });

  test("encode without decode is refused, and so is a codec together with shorten", async () => {
    const { encode, decode } = codec;
    const refused = (more: object) =>
      expect(guard.run({ operation: "coded", key: "d", ...more }, () => 1)).rejects.toMatchObject({
        code: "options-invalid",
      });
    await refused({ encode });
    await refused({ decode });
    await refused({ encode, decode, shorten: () => 1 });
    expect(() => guard.wrap(() => 1, { operation: "x", key: () => "k", encode: () => 1 })).toThrow(
      "encode is given without decode",
    );
  });
});

describe("the types", () => {
  interface Receipt {
    readonly id: string;
    readonly pdf: Uint8Array;
  }
  const receipt: Receipt = { id: "r1", pdf: new Uint8Array(3) };

  test("shorten is typed by the return type of the work, without a cast", async () => {
    const charged = await guard.run(
      { operation: "typed", key: "1", shorten: (value) => ({ id: value.id }) },
      () => receipt,
    );
    expectTypeOf(charged).toEqualTypeOf<Receipt>();
    await guard.tryRun(
      { operation: "typed", key: "2", shorten: ({ id }: Receipt) => id },
      async () => receipt,
    );
    const wrong = (value: Date) => value.getTime();
    // @ts-expect-error: the work returns a receipt, not a date.
    await guard.run({ operation: "typed", key: "3", shorten: wrong }, () => receipt);
  });

  test("a request without a type parameter accepts any work", async () => {
    const request: RunRequest = { operation: "typed", key: "4" };
    expectTypeOf(guard.run(request, () => receipt)).toEqualTypeOf<Promise<Receipt>>();
    expectTypeOf(guard.run<Receipt>(request, () => receipt)).toEqualTypeOf<Promise<Receipt>>();
    const failing = (): never => {
      throw new Error("no");
    };
    await guard.run({ ...request, key: "5" }, failing).catch(() => {});
  });
});
