/** `@idempotent(guard, options)` for methods that return a promise: standard decorators, and the legacy call shape. */
import type { Engine } from "../core/engine.ts";
import { NevertwiceError } from "../core/errors.ts";
import { checkPositions, requestFrom, type WrapOptions } from "./wrap.ts";

// biome-ignore lint/suspicious/noExplicitAny: a decorator must accept methods of any signature.
type Method = (...args: any[]) => Promise<any>;

/** The guard, or how to find it on the instance whose method is called (for guards that are injected). */
// biome-ignore lint/suspicious/noExplicitAny: the instance is whatever class the decorator stands in.
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

/** Options are checked here, when the class is defined; bad ones are `options-invalid`. */
export function idempotent<Args extends readonly unknown[]>(
  guard: GuardSource,
  options: WrapOptions<Args>,
): MethodDecorator {
  const requestOf = requestFrom(options as WrapOptions<readonly unknown[]>);

  function guarded(method: unknown, name: unknown, kind = "method"): Method {
    if (typeof method !== "function" || kind !== "method")
      throw new NevertwiceError(
        "options-invalid",
        `@idempotent stands on ${String(name)}, which is no method.`,
      );
    checkPositions(options.keyFrom, `the method ${String(name)}`, method as Method);
    return async function (this: unknown, ...args: unknown[]) {
      const found = typeof guard === "function" ? guard(this) : guard;
      if (typeof found?.run !== "function")
        throw new NevertwiceError("options-invalid", `@idempotent on ${String(name)} found no guard.`);
      return found.run(requestOf(args), () => method.apply(this, args));
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
