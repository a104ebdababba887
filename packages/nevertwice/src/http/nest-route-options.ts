/** `@Idempotent()`: the options of one controller or one handler, and how they combine with those of the app. */
import { checkHttpOptions } from "./http-option-checks.ts";
import type { HttpOptions } from "./options.ts";

// biome-ignore lint/suspicious/noExplicitAny: the request type depends on the platform; the user names it.
export type AnyRequest = any;

/** Options that differ from the app's, or `false` for no protection. */
export type NestRouteIdempotency<Req = AnyRequest> = Partial<HttpOptions<Req>> | false;

/** By controller class, and by handler function. */
const DECORATED = new WeakMap<object, NestRouteIdempotency>();

/**
 * The options on a handler override those on its controller, which override those of the app.
 * @throws `options-invalid`
 */
export function Idempotent<Req = AnyRequest>(
  options: NestRouteIdempotency<Req> = {},
): ClassDecorator & MethodDecorator {
  if (options !== false) checkHttpOptions({ scope: "anyone", ...options });
  return (target: object, _name?: unknown, method?: { readonly value?: unknown }) => {
    DECORATED.set((method?.value as object | undefined) ?? target, options);
  };
}

/** Undefined if the route is not protected. */
export function mergeOptions(
  options: HttpOptions<AnyRequest>,
  controller: object,
  handler: object,
): HttpOptions<AnyRequest> | undefined {
  let ofController: NestRouteIdempotency | undefined;
  for (let type: object | null = controller; type !== null; type = Object.getPrototypeOf(type)) {
    ofController ??= DECORATED.get(type);
  }
  const ofHandler = DECORATED.get(handler);
  if ((ofHandler ?? ofController) === false) return undefined;
  return { ...options, ...(ofController || {}), ...(ofHandler || {}) };
}
