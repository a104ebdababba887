/** Programs of imagined users, for the tests of the package: they are compiled and run against the installed tarball. */

const TYPE_EQUALITY = `
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_proof: Same<A, B>): void {}
`;

/** Fails to compile if a type is not found, is `any`, or is inferred as something else. */
export const TYPED = `
import { createGuard, idempotent, isNevertwiceError, NevertwiceError } from "nevertwice";
import type { Attempt, Clock, ErrorCode, Guard, Observer, Store } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";
${TYPE_EQUALITY}
interface Order { readonly id: string; readonly amount: number }
const order: Order = { id: "order-1", amount: 5 };
const clock: Clock = { now: () => 0 };
const observer: Observer = (event) => event.kind;
const store: Store = memoryStore({ clock, maxRecords: 10 });
const guard: Guard = createGuard({ store, namespace: "shop", observer, onPending: "reject" });

const receipt = await guard.run({ operation: "charge", key: order.id, fingerprint: { amount: 5 } }, async (attempt) => {
  same<typeof attempt, Attempt>(true);
  return { receipt: attempt.deriveKey("psp"), amount: order.amount };
});
same<typeof receipt, { receipt: string; amount: number }>(true);

const result = await guard.tryRun({ operation: "count", key: "1" }, () => 7);
same<
  (typeof result)["status"],
  "ran" | "replayed" | "already-done" | "pending" | "conflict" | "unknown" | "unavailable" | "lease-lost" | "not-kept"
>(true);
if (result.status === "ran") {
  same<typeof result.value, number>(true);
  same<typeof result.recorded, boolean>(true);
}
if (result.status === "unavailable") same<typeof result.error, NevertwiceError>(true);

const charge = guard.wrap(async (given: Order, note?: string) => given.amount + (note ?? "").length, {
  operation: "charge",
  key: (given) => given.id,
  fingerprint: (given) => ({ amount: given.amount }),
});
same<typeof charge, (given: Order, note?: string) => Promise<number>>(true);

try {
  await charge(order);
} catch (error) {
  if (isNevertwiceError(error, "conflict")) {
    same<typeof error.code, "conflict">(true);
    const code: ErrorCode = error.code;
    void code;
  }
}

class Shop {
  @idempotent(guard, { operation: "charge", key: (given: Order) => given.id })
  async charge(given: Order): Promise<number> {
    return given.amount;
  }
}
same<Shop["charge"], (given: Order) => Promise<number>>(true);

// @ts-expect-error: the operation is always given.
await guard.run({ key: "1" }, () => 1);
// @ts-expect-error: there is no such policy.
createGuard({ store, onPending: "hope" });
// @ts-expect-error: a guard needs a store.
createGuard({});
// @ts-expect-error: the key is made of this function's arguments.
guard.wrap(async (given: Order) => given, { operation: "charge", key: (given: number) => String(given) });
`;

const SHOP = `
import { createGuard, idempotent } from "nevertwice";
import { memoryStore } from "nevertwice/stores/memory";

const guard = createGuard({ store: memoryStore() });
let runs = 0;

class Shop {
  readonly factor = 2;
  @idempotent(guard, { operation: "charge", key: (id: string) => id })
  async charge(id: string): Promise<number> {
    runs++;
    return this.factor * 21 + 0 * id.length;
  }
}

const shop = new Shop();
const first = await shop.charge("order-1");
const second = await shop.charge("order-1");
console.log(runs, first, second);
`;

/** Prints how often the method ran and what two calls of it got. */
export const DECORATED = SHOP;

/** The same, and the shape that frameworks with experimental decorators use: a guard found on the instance. */
export const LEGACY_DECORATED = `${SHOP}
class InjectedShop {
  constructor(readonly guard: ReturnType<typeof createGuard>) {}
  @idempotent((shop: InjectedShop) => shop.guard, { operation: "injected", keyFrom: [0] })
  async charge(id: string): Promise<string> {
    return id;
  }
}
const answer: string = await new InjectedShop(guard).charge("order-2");
if (answer !== "order-2") throw new Error(answer);
`;

/** Preloaded, it writes every URL that Node resolves to the file named by RECORD. */
export const RECORDER = `
import { appendFileSync } from "node:fs";
import module from "node:module";
import { pathToFileURL } from "node:url";

const record = (url) => appendFileSync(process.env.RECORD, url + "\\n");
if (module.registerHooks !== undefined) {
  module.registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context);
      record(resolved.url);
      return resolved;
    },
  });
} else {
  const load = module._load;
  module._load = function (request, parent, ...rest) {
    if (module.isBuiltin(request)) record(request);
    else record(pathToFileURL(module._resolveFilename(request, parent)).href);
    return load.call(this, request, parent, ...rest);
  };
  const hooks = \`
    import { appendFileSync } from "node:fs";
    export async function resolve(specifier, context, next) {
      const resolved = await next(specifier, context);
      appendFileSync(process.env.RECORD, resolved.url + "\\\\n");
      return resolved;
    }\`;
  module.register("data:text/javascript," + encodeURIComponent(hooks));
}
`;

/**
 * Requires a module as Jest does: each file is compiled in a context that cannot import anything dynamically. Opens a store
 * whose driver the application has installed.
 */
export const REQUIRED_LIKE_JEST = `
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { dirname } = require("node:path");
const vm = require("node:vm");

const loaded = new Map();
function load(file) {
  if (loaded.has(file)) return loaded.get(file).exports;
  const module = { exports: {} };
  loaded.set(file, module);
  const native = createRequire(file);
  const isOwn = (path) => path.includes("/nevertwice/dist/");
  const required = (name) => (isOwn(native.resolve(name)) ? load(native.resolve(name)) : native(name));
  const names = ["exports", "require", "module", "__filename", "__dirname"];
  const run = vm.compileFunction(readFileSync(file, "utf8"), names, { filename: file });
  run(module.exports, required, module, file, dirname(file));
  return module.exports;
}

const { openStore } = load(require.resolve("nevertwice/stores/open"));
openStore("redis://127.0.0.1:1")
  .then(
    (store) => console.log(typeof store.claim),
    (error) => console.log(error.code ?? error.message),
  )
  .then(() => process.exit());
`;
