/**
 * Tests `@idempotent` as compilers call it. Each class here is compiled with standard decorators and with legacy
 * ones.
 */
import ts from "typescript";
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import type { ErrorCode } from "../../src/core/errors.ts";
import { idempotent } from "../../src/functions/decorator.ts";
import { createGuard, type Guard } from "../../src/functions/guard.ts";
import { memoryStore } from "../../src/stores/memory.ts";

const failure = (code: ErrorCode, words = "") =>
  expect.objectContaining({ code, message: expect.stringContaining(words) });

/** Compiles the body of a function that receives `idempotent` and `guard`, and returns the function. */
async function compiled<T>(body: string, experimentalDecorators: boolean): Promise<(guard: unknown) => T> {
  const source = `export function define(idempotent: any, guard: any): any { ${body} }`;
  const { outputText, diagnostics } = ts.transpileModule(source, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, experimentalDecorators },
    reportDiagnostics: true,
  });
  expect(diagnostics).toEqual([]);
  expect(outputText).toContain(experimentalDecorators ? "__decorate(" : "__esDecorate(");
  const loaded = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);
  return (guard) => loaded.define(idempotent, guard);
}

let guard: Guard;
beforeEach(() => {
  guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
});
afterEach(() => guard.close());

interface Shop {
  name: string;
  charged: number;
  charge(id: string, amount?: number): Promise<string>;
}
type ShopClass = new (name: string, guard?: unknown) => Shop;

const SHOP = (decorator: string) => `
  class Shop {
    charged = 0;
    constructor(public name: string, private guard: unknown) {}
    ${decorator}
    async charge(id: string, amount: number) {
      this.charged++;
      if (amount < 0) throw new RangeError(\`\${this.name} refuses \${amount}\`);
      return \`\${this.name} charged \${id}\`;
    }
  }
  return Shop;`;
const PLAIN_SHOP = SHOP('@idempotent(guard, { operation: "charge", keyFrom: [0] })');

describe.each([
  ["standard decorators", false],
  ["experimentalDecorators", true],
])("with %s, a decorated method", (_, isLegacy) => {
  test("runs once per key, with its own this and arguments", async () => {
    const Shop = (await compiled<ShopClass>(PLAIN_SHOP, isLegacy))(guard);
    const shop = new Shop("corner");
    expect(await shop.charge("42")).toBe("corner charged 42");
    expect(await shop.charge("42")).toBe("corner charged 42");
    expect(await shop.charge("43")).toBe("corner charged 43");
    expect(shop.charged).toBe(2);
  });

  test("shares its keys with other instances, since the key names the work and not the object", async () => {
    const Shop = (await compiled<ShopClass>(PLAIN_SHOP, isLegacy))(guard);
    expect(await new Shop("first").charge("42")).toBe("first charged 42");
    const second = new Shop("second");
    expect(await second.charge("42")).toBe("first charged 42");
    expect(second.charged).toBe(0);
  });

  test("throws the error of the work, and may then run again", async () => {
    const shop = new ((await compiled<ShopClass>(PLAIN_SHOP, isLegacy))(guard))("corner");
    await expect(shop.charge("42", -1)).rejects.toThrow(new RangeError("corner refuses -1"));
    expect(await shop.charge("42", 1)).toBe("corner charged 42");
  });

  test("rejects a call without a key, and does not run", async () => {
    const shop = new ((await compiled<ShopClass>(PLAIN_SHOP, isLegacy))(guard))("corner");
    await expect(shop.charge(undefined as unknown as string)).rejects.toEqual(failure("key-missing"));
    expect(shop.charged).toBe(0);
  });

  test("accepts every option of a wrapped function", async () => {
    const options = `{
      operation: "charge", key: (id) => id, scope: () => "tenant", onCompleted: "reject",
      fingerprint: (_id, amount) => ({ amount }),
    }`;
    const shop = new ((await compiled<ShopClass>(SHOP(`@idempotent(guard, ${options})`), isLegacy))(guard))(
      "corner",
    );
    expect(await shop.charge("42", 1)).toBe("corner charged 42");
    await expect(shop.charge("42", 1)).rejects.toEqual(failure("already-done"));
    await expect(shop.charge("42", 2)).rejects.toEqual(failure("conflict"));
    expect((await guard.read({ operation: "charge", scope: "tenant", key: "42" }))?.state).toBe("completed");
  });

  test("takes its guard from the instance", async () => {
    const body = SHOP('@idempotent((shop) => shop.guard, { operation: "charge", keyFrom: [0] })');
    const Shop = (await compiled<ShopClass>(body, isLegacy))(undefined);
    const other = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
    expect(await new Shop("first", guard).charge("42")).toBe("first charged 42");
    expect(await new Shop("second", guard).charge("42")).toBe("first charged 42");
    expect(await new Shop("third", other).charge("42")).toBe("third charged 42");
    await other.close();
  });

  test("throws options-invalid if there is no guard", async () => {
    const body = SHOP('@idempotent((shop) => shop.guard, { operation: "charge", keyFrom: [0] })');
    const shop = new ((await compiled<ShopClass>(body, isLegacy))(undefined))("corner");
    await expect(shop.charge("42")).rejects.toEqual(
      failure("options-invalid", "@idempotent on charge found no guard."),
    );
    expect(shop.charged).toBe(0);
    const without = new ((await compiled<ShopClass>(PLAIN_SHOP, isLegacy))(undefined))("corner");
    await expect(without.charge("42")).rejects.toEqual(failure("options-invalid", "found no guard"));
  });

  test("may be static, and this is the class", async () => {
    const body = `
      class Till {
        static guard = guard;
        static count = 0;
        @idempotent((till) => till.guard, { operation: "open", keyFrom: [0] })
        static async open(id: string) { return \`\${id} \${++this.count}\`; }
      }
      return Till;`;
    const Till = (await compiled<{ open(id: string): Promise<string>; count: number }>(body, isLegacy))(
      guard,
    );
    expect([await Till.open("a"), await Till.open("a"), await Till.open("b")]).toEqual(["a 1", "a 1", "b 2"]);
    expect(Till.count).toBe(2);
  });

  test("may have a symbol as its name, and need not return a promise", async () => {
    const body = `
      class Till {
        @idempotent(guard, { operation: "open", keyFrom: [0] })
        [Symbol.for("open")](id: string) { return { id, at: new Date(5) }; }
      }
      return Till;`;
    const Till = (await compiled<new () => Record<symbol, (id: string) => unknown>>(body, isLegacy))(guard);
    const open = new Till()[Symbol.for("open")];
    expect(await open?.("a")).toEqual({ id: "a", at: new Date(5) });
  });

  test("uses the keys of its domain", async () => {
    const options = '{ operation: "charge", domain: "billing", keyFrom: [0] }';
    const Shop = (await compiled<ShopClass>(SHOP(`@idempotent(guard, ${options})`), isLegacy))(guard);
    expect(await new Shop("corner").charge("42")).toBe("corner charged 42");
    expect((await guard.read({ operation: "charge", domain: "billing", key: "42" }))?.state).toBe(
      "completed",
    );
    expect(await guard.read({ operation: "charge", key: "42" })).toBeUndefined();
  });

  test("may take its key from an argument beyond the parameters that `length` counts", async () => {
    const body = `
      class Till {
        @idempotent(guard, { operation: "open", keyFrom: ["1.id"] })
        async open(drawer: string, { id } = { id: "default" }, ...notes: string[]) { return drawer + id + notes; }
      }
      return Till;`;
    interface Till {
      open(drawer: string, order?: { id: string }): Promise<string>;
    }
    const till = new ((await compiled<new () => Till>(body, isLegacy))(guard))();
    expect([await till.open("a", { id: "1" }), await till.open("b", { id: "1" })]).toEqual(["a1", "a1"]);
    // The default belongs to the method: the call itself has no value there.
    await expect(till.open("a")).rejects.toEqual(failure("key-missing", '"1.id"'));
  });

  test("works with another decorator, on either side", async () => {
    const body = `
      const loud = (target: any, _name: unknown, descriptor?: any) => {
        const method = descriptor?.value ?? target;
        const louder = async function (this: unknown, ...args: unknown[]) {
          return (await method.apply(this, args)) + "!";
        };
        return descriptor === undefined ? louder : { ...descriptor, value: louder };
      };
      class Till {
        count = 0;
        @loud @idempotent(guard, { operation: "inner", keyFrom: [0] })
        async inner(id: string) { return id + ++this.count; }
        @idempotent(guard, { operation: "outer", keyFrom: [0] }) @loud
        async outer(id: string) { return id + ++this.count; }
      }
      return Till;`;
    type Tills = new () => Record<"inner" | "outer", (id: string) => Promise<string>>;
    const till = new ((await compiled<Tills>(body, isLegacy))(guard))();
    expect([await till.inner("a"), await till.inner("a")]).toEqual(["a1!", "a1!"]);
    expect([await till.outer("a"), await till.outer("a")]).toEqual(["a2!", "a2!"]);
  });

  test("is inherited, and can be called through super", async () => {
    const body = `
      ${PLAIN_SHOP.replace("return Shop;", "")}
      return class Branch extends Shop {
        async charge(id: string, amount: number) { return "branch: " + (await super.charge(id, amount)); }
      };`;
    const Branch = (await compiled<ShopClass>(body, isLegacy))(guard);
    expect(await new Branch("first").charge("42")).toBe("branch: first charged 42");
    expect(await new Branch("second").charge("42")).toBe("branch: first charged 42");
  });

  test("has the property attributes of a method", async () => {
    const Shop = (await compiled<ShopClass>(PLAIN_SHOP, isLegacy))(guard);
    expect(Object.getOwnPropertyDescriptor(Shop.prototype, "charge")).toEqual({
      value: expect.any(Function),
      writable: true,
      enumerable: false,
      configurable: true,
    });
  });

  test.each([
    ["no operation", "{ keyFrom: [0] }", "operation is missing"],
    ["no key", '{ operation: "charge" }', "exactly one of key"],
    ["a bad path", '{ operation: "charge", keyFrom: ["id"] }', "keyFrom must list"],
    ["a bad policy", '{ operation: "charge", keyFrom: [0], leaseMs: 1 }', "leaseMs is 1"],
    ["an unknown option", '{ operation: "charge", keyFrom: [0], tries: 3 }', '"tries"'],
    ["no options", "undefined", ""],
    ["both key sources", '{ operation: "charge", keyFrom: [0], key: (id) => id }', "exactly one of key"],
    ["an empty operation", '{ operation: "", keyFrom: [0] }', "operation is empty"],
    ["a long operation", '{ operation: "o".repeat(1_025), keyFrom: [0] }', "operation has 1025 bytes"],
    ["a bad domain", '{ operation: "charge", domain: "a:b", keyFrom: [0] }', "domain must be a string"],
    ["a window of 0", '{ operation: "charge", keyFrom: [0], retentionMs: 0 }', "retentionMs is 0"],
    ["a fractional window", '{ operation: "charge", keyFrom: [0], leaseMs: 10.5 }', "leaseMs is 10.5"],
    ["a window of NaN", '{ operation: "charge", keyFrom: [0], waitMs: NaN }', "waitMs is NaN"],
    [
      "a position without a parameter",
      '{ operation: "charge", keyFrom: ["0.id", "2.id"] }',
      'keyFrom has "2.id", but the method charge has 2 parameters',
    ],
  ])("with %s throws when its class is defined", async (_what, options, words) => {
    const define = await compiled(SHOP(`@idempotent(guard, ${options})`), isLegacy);
    expect(() => define(guard)).toThrow(failure("options-invalid", words));
  });
});

const REFUSED: readonly [what: string, isLegacy: boolean, member: string][] = [
  ["a field", false, "@GUARDED total = 0;"],
  ["a field that holds a function", false, "@GUARDED total = async () => 0;"],
  ["an accessor", false, "@GUARDED accessor total = 0;"],
  ["a getter", false, "@GUARDED get total() { return 0; }"],
  ["a setter", false, "@GUARDED set total(value: number) {}"],
  ["a field", true, "@GUARDED total = 0;"],
  ["a field that holds a function", true, "@GUARDED total = async () => 0;"],
  ["a getter", true, "@GUARDED get total() { return 0; }"],
  ["a setter", true, "@GUARDED set total(value: number) {}"],
  ["a parameter", true, "async total(@GUARDED id: string) {}"],
];

describe("a decorated member that is not a method is refused when its class is defined", () => {
  const guarded = 'idempotent(guard, { operation: "charge", key: () => "42" })';

  test.each(REFUSED)("%s (legacy: %s)", async (_, isLegacy, member) => {
    const define = await compiled(
      `class Shop { ${member.replace("GUARDED", guarded)} } return Shop;`,
      isLegacy,
    );
    expect(() => define(guard)).toThrow(
      failure("options-invalid", "@idempotent is on total, which is not a method."),
    );
  });

  test.each([false, true])("a class (legacy: %s)", async (isLegacy) => {
    const define = await compiled(`@${guarded} class Shop {} return Shop;`, isLegacy);
    expect(() => define(guard)).toThrow(failure("options-invalid", "which is not a method."));
  });
});

test("a private static method can be guarded, with standard decorators", async () => {
  const body = `
    class Till {
      static count = 0;
      static open(id: string) { return this.#open(id); }
      @idempotent(guard, { operation: "open", keyFrom: [0] })
      static async #open(id: string) { return \`\${id} \${++this.count}\`; }
    }
    return Till;`;
  const Till = (await compiled<{ open(id: string): Promise<string> }>(body, false))(guard);
  expect([await Till.open("a"), await Till.open("a")]).toEqual(["a 1", "a 1"]);
});

test("a private method can be guarded, with standard decorators", async () => {
  const body = `
    class Till {
      count = 0;
      open(id: string) { return this.#open(id); }
      @idempotent(guard, { operation: "open", keyFrom: [0] })
      async #open(id: string) { return \`\${id} \${++this.count}\`; }
    }
    return Till;`;
  const Till = (await compiled<new () => { open(id: string): Promise<string> }>(body, false))(guard);
  const till = new Till();
  expect([await till.open("a"), await till.open("a")]).toEqual(["a 1", "a 1"]);
});

test("the decorator keeps the method's type, and accepts async methods only", () => {
  const decorate = idempotent<[id: string]>(guard, { operation: "charge", key: (id) => id });
  const method = async (id: string) => id.length;
  expectTypeOf(decorate(method, {} as ClassMethodDecoratorContext)).toEqualTypeOf<
    (id: string) => Promise<number>
  >();
  const descriptor: TypedPropertyDescriptor<typeof method> = { value: method };
  expectTypeOf(decorate({}, "charge", descriptor)).toEqualTypeOf<TypedPropertyDescriptor<typeof method>>();
  // @ts-expect-error a method that returns no promise cannot be replayed unchanged.
  decorate((id: string) => id.length, {} as ClassMethodDecoratorContext);
  // @ts-expect-error a getter is not a method.
  expectTypeOf(decorate).toBeCallableWith(method, {} as ClassGetterDecoratorContext);
});
