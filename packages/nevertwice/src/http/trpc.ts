/**
 * tRPC: a middleware that guards mutations, each call of a batch by itself. The types contain only the members that are used
 * here. The middleware runs in front of the validators that follow it, and sees the input as the client sent it.
 */

import { requireGuard } from "../core/argument-checks.ts";
import type { Attempt } from "../core/attempt.ts";
import type { Engine } from "../core/engine.ts";
import { isNevertwiceError, NevertwiceError } from "../core/errors.ts";
import { type Check, checkOptions, isBoolean, isFunction } from "../core/option-checks.ts";
import { POLICY_CHECKS, type PolicyOptions, pickPolicies } from "../core/policy.ts";
import type { KeepOptions, TakeSeat } from "../core/request.ts";
import { toError } from "../core/result.ts";
import { type Awaitable, HTTP_DEFAULTS } from "./options.ts";
import { type TrpcProblem, toTrpcError } from "./trpc/refusal.ts";
import { takeSeat } from "./waiting-room.ts";

export type { Attempt } from "../core/attempt.ts";
export { callKey } from "./trpc/call-key.ts";
export { readProblem, type TrpcProblem } from "./trpc/refusal.ts";

/** One call of a procedure, as the functions in the options receive it. */
export interface TrpcCall<Context = unknown> {
  /** The context of the call. */
  readonly ctx: Context;
  /** The procedure: `payments.create`. */
  readonly path: string;
  /** As the client sent it: no validator has seen it. */
  readonly input: unknown;
  /** The metadata of the procedure. */
  readonly meta: unknown;
  /** The place of the call in its batch. */
  readonly batchIndex: number;
}

/** Options of the tRPC middleware. Every policy of the guard can be set here too. */
export interface TrpcOptions<Context>
  extends PolicyOptions,
    Pick<KeepOptions<unknown, unknown>, "encode" | "decode"> {
  /** Returns the owner of a key from the authenticated call. `"anyone"`: all callers share their keys. */
  readonly scope: "anyone" | ((call: TrpcCall<Context>) => Awaitable<string | undefined>);
  /** Returns the key of a call; undefined for a call without a key. */
  readonly key: (call: TrpcCall<Context>) => Awaitable<string | undefined>;
  /**
   * Refuses mutations without a key.
   * @default false
   */
  readonly required?: boolean | undefined;
  /** The operation that the key belongs to. */
  readonly operation?: ((call: TrpcCall<Context>) => string) | undefined;
  /**
   * What decides whether two calls are the same.
   * @default "input"
   */
  readonly fingerprint?: "input" | "none" | ((call: TrpcCall<Context>) => unknown) | undefined;
  /** Returns the application's own error for a refusal; undefined for the layer's. */
  readonly refusal?: ((problem: TrpcProblem, call: TrpcCall<Context>) => Error | undefined) | undefined;
}

/** The defaults of `TrpcOptions`. */
export const TRPC_DEFAULTS = { required: false, fingerprint: "input" } as const;

const CHECKS: Readonly<Record<string, Check>> = {
  ...POLICY_CHECKS,
  scope(name, value) {
    if (typeof value === "function" || value === "anyone") return;
    throw new NevertwiceError(
      "options-invalid",
      `${name} must be a function that returns the owner of the authenticated call, or "anyone".`,
    );
  },
  key: isFunction,
  required: isBoolean,
  operation: isFunction,
  fingerprint(name, value) {
    if (typeof value === "function" || value === "input" || value === "none") return;
    throw new NevertwiceError("options-invalid", `${name} must be "input", "none" or a function.`);
  },
  refusal: isFunction,
  encode: isFunction,
  decode: isFunction,
};

/** What `next` resolves with. */
type ProcedureResult =
  | { readonly ok: true; readonly data: unknown }
  | { readonly ok: false; readonly error: Error };

interface MiddlewareCall<Context, Result> {
  readonly ctx: Context;
  readonly type: string;
  readonly path: string;
  readonly meta: unknown;
  readonly batchIndex?: number | undefined;
  /** Fires when the client disconnects. */
  readonly signal: AbortSignal | undefined;
  getRawInput(): Promise<unknown>;
  next(more: { ctx: object }): Promise<Result>;
}

/** The result is what `next` returns, or looks like it. */
export type TrpcMiddleware<Context> = <Result>(call: MiddlewareCall<Context, Result>) => Promise<Result>;

const ATTEMPT = Symbol("nevertwice.attempt");

/** The attempt of the procedure that received this context; undefined if the call has no key. */
export function attemptOf(ctx: object): Attempt | undefined {
  return (ctx as { readonly [ATTEMPT]?: Attempt })[ATTEMPT];
}

/**
 * tRPC middleware: a mutation with a key runs once. Queries and subscriptions pass through. Throws `options-invalid`.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { initTRPC } from "@trpc/server";
 * import { createGuard } from "nevertwice";
 * import { callKey, idempotency } from "nevertwice/http/trpc";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * interface Context {
 *   readonly customer: string;
 *   readonly keys: string | undefined;
 * }
 * const guard = createGuard({ store: memoryStore() });
 * const t = initTRPC.context<Context>().create();
 * export const once = t.procedure.use(
 *   idempotency<Context>(guard, {
 *     scope: ({ ctx }) => ctx.customer,
 *     key: ({ ctx, batchIndex }) => callKey(ctx.keys, batchIndex),
 *   }),
 * );
 * ```
 */
export function idempotency<Context>(guard: Engine, options: TrpcOptions<Context>): TrpcMiddleware<Context> {
  requireGuard(guard, "it comes before the options, idempotency(guard, { scope, key })");
  checkOptions(options, CHECKS);
  for (const name of ["scope", "key"] as const)
    if (options[name] === undefined) throw new NevertwiceError("options-invalid", `${name} is missing.`);
  const engine = guard.with(pickPolicies(options));
  const { encode, decode, refusal } = options;
  const takeOwnSeat: TakeSeat = (id, waitMs) => takeSeat(HTTP_DEFAULTS.maxWaiting, { id, bytes: 0, waitMs });

  return async function idempotent(middleware) {
    if (middleware.type !== "mutation") return await middleware.next({ ctx: middleware.ctx as object });
    let done: ProcedureResult | undefined;
    let received: TrpcCall<Context> | undefined;
    try {
      received = await readCall(middleware);
      const request = await readRequest(received, options);
      if (request === undefined) return await middleware.next({ ctx: middleware.ctx as object });
      // A procedure that fails because its client is gone leaves an unknown outcome.
      const call = { ...request, encode, decode, signal: middleware.signal, takeSeat: takeOwnSeat };
      const result = await engine.tryRun(call, async (attempt) => {
        const ctx = { ...middleware.ctx, [ATTEMPT]: attempt };
        done = (await middleware.next({ ctx })) as ProcedureResult;
        if (!done.ok) throw done.error;
        return done.data;
      });
      if (result.status !== "ran" && result.status !== "replayed") throw toError(result);
      return { marker: "middlewareMarker", ok: true, ...done, data: result.value } as never;
    } catch (error) {
      if (done !== undefined && !done.ok) return done as never;
      if (done === undefined && isNevertwiceError(error)) {
        const call = received;
        throw toTrpcError(error, refusal && call && ((problem) => refusal(problem, call)));
      }
      throw error;
    }
  };
}

interface TrpcRequest {
  readonly operation: string;
  readonly scope?: string;
  readonly key: string;
  readonly fingerprint: unknown;
}

async function readCall<Context>({
  ctx,
  path,
  meta,
  batchIndex = 0,
  getRawInput,
}: Omit<MiddlewareCall<Context, unknown>, "next" | "type">): Promise<TrpcCall<Context>> {
  return { ctx, path, meta, batchIndex, input: await getRawInput() };
}

/** Undefined if the call has no key and needs none. */
async function readRequest<Context>(
  call: TrpcCall<Context>,
  options: TrpcOptions<Context>,
): Promise<TrpcRequest | undefined> {
  const { path } = call;
  const key = await options.key(call);
  if (key === undefined) {
    if (options.required !== true) return undefined;
    throw new NevertwiceError("key-missing", `the mutation ${path} requires a key.`);
  }
  if (typeof key !== "string" || key === "")
    throw new NevertwiceError("key-invalid", `the key of the mutation ${path} is empty or malformed.`);
  const operation = options.operation?.(call) ?? path;
  const request = { operation, key, fingerprint: await readMeaning(call, options) };
  if (options.scope === "anyone") return request;
  const scope = await options.scope(call);
  if (typeof scope !== "string" || scope === "")
    throw new NevertwiceError(
      "scope-missing",
      "scope(call) returned no owner; authenticate in an earlier middleware.",
    );
  return { ...request, scope };
}

async function readMeaning<Context>(
  call: TrpcCall<Context>,
  { fingerprint = TRPC_DEFAULTS.fingerprint }: TrpcOptions<Context>,
): Promise<unknown> {
  if (fingerprint === "none") return undefined;
  return fingerprint === "input" ? { input: call.input } : await fingerprint(call);
}
