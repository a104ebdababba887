/** `@idempotent(guard, options)` for methods that return a promise, as a standard or a legacy decorator. */
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkPositions, createRequestBuilder, type WrapOptions } from "./wrap.ts";

// biome-ignore lint/suspicious/noExplicitAny: a decorator must accept methods of any signature.
type Method = (...args: any[]) => Promise<any>;

/** The guard, or a function that gets the instance and returns its guard (for guards that are injected). */
// biome-ignore lint/suspicious/noExplicitAny: the instance can be of any class.
export type GuardSource = Pick<Engine, "run"> | ((instance: any) => Pick<Engine, "run">);

export interface MethodDecorator {
  /** Standard decorators (TypeScript 5 and later, TC39 stage 3). */
  <M extends Method>(method: M, context: ClassMethodDecoratorContext): M;
  /** `experimentalDecorators`, as in NestJS. */
  <M extends Method>(
    prototype: object,
    name: string | symbol,
    descriptor: TypedPropertyDescriptor<M>,
  ): TypedPropertyDescriptor<M>;
}

/**
 * Decorates a method, which then runs once per key. The options are checked when the class is defined.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { createGuard, idempotent } from "nevertwice";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * class Payments {@idempotent(guard, { operation: "charge", keyFrom: [0] })
 *   async charge(orderId: string) {
 *     return `receipt for ${orderId}`;
 *   }
 * }
 * console.log(await new Payments().charge("order-17"));
 * ```
 */
export function idempotent<Args extends readonly unknown[]>(
  guard: GuardSource,
  options: WrapOptions<Args>,
): MethodDecorator {
  // The options were given in place of the guard. A guard that does not exist yet is checked when the method is called.
  if (typeof guard === "object" && guard !== null && typeof guard.run !== "function")
    throw new NevertwiceError(
      "options-invalid",
      "the guard is missing: @idempotent(guard, { operation, key }). Give a guard, or a function that gets the instance and returns one.",
    );
  const toRequest = createRequestBuilder(options as WrapOptions<readonly unknown[]>);

  function guarded(method: unknown, name: unknown, kind = "method"): Method {
    if (typeof method !== "function" || kind !== "method")
      throw new NevertwiceError(
        "options-invalid",
        `@idempotent is on ${String(name)}, which is not a method. Put it on a method that returns a promise.`,
      );
    checkPositions(options.keyFrom, `the method ${String(name)}`, method as Method);
    return async function (this: unknown, ...args: unknown[]) {
      const found = typeof guard === "function" ? guard(this) : guard;
      if (typeof found?.run !== "function")
        throw new NevertwiceError(
          "options-invalid",
          `@idempotent on ${String(name)} found no guard. Give @idempotent a guard, or a function that gets the instance and returns one.`,
        );
      return found.run(toRequest(args), () => method.apply(this, args));
    };
  }

  return ((
    target: unknown,
    nameOrContext: ClassMethodDecoratorContext | string | symbol,
    descriptor?: PropertyDescriptor,
  ) => {
    if (typeof nameOrContext === "object") return guarded(target, nameOrContext.name, nameOrContext.kind);
    return { ...descriptor, value: guarded(descriptor?.value, nameOrContext) };
  }) as MethodDecorator;
}
