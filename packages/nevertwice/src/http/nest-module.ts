/** The module that gives a Nest app the layer, with options that are known at once or that a factory returns. */
import {
  type CallHandler,
  ConfigurableModuleBuilder,
  type ConfigurableModuleCls,
  type DynamicModule,
  Global,
  Inject,
  Module,
  type NestInterceptor,
} from "@nestjs/common";
import type { Engine } from "../core/engine.ts";
import { IDEMPOTENCY_GUARD, IDEMPOTENCY_OPTIONS, IdempotencyInterceptor } from "./nest-interceptor.ts";
import type { AnyRequest } from "./nest-route-options.ts";
import type { HttpOptions } from "./options.ts";
import { resolveHttpOptions } from "./resolved-options.ts";

export interface NestModuleOptions {
  /**
   * `false`: only controllers and handlers with `@UseInterceptors(IdempotencyInterceptor)` are protected.
   * @default true
   */
  readonly everyRoute?: boolean;
  /**
   * `false`: the guard stays open when the app is closed.
   * @default true
   */
  readonly closeGuard?: boolean;
}

export const NEST_MODULE_DEFAULTS = { everyRoute: true, closeGuard: true } as const;

/** What the factory of `IdempotencyModule.forRootAsync` returns. */
export interface NestIdempotency<Req = AnyRequest> extends HttpOptions<Req>, NestModuleOptions {
  /** The guard that the module was created with. */
  readonly guard: Engine;
}

const MODULE_OPTIONS = Symbol("IDEMPOTENCY_MODULE_OPTIONS");

type ConfigurableModule = ConfigurableModuleCls<NestIdempotency, "forRoot", "createIdempotencyOptions">;

const Configurable: ConfigurableModule = new ConfigurableModuleBuilder<NestIdempotency>({
  optionsInjectionToken: MODULE_OPTIONS,
})
  .setClassMethodName("forRoot")
  .setFactoryMethodName("createIdempotencyOptions")
  .build().ConfigurableModuleClass;

/** The running apps of each guard. A guard that several apps share is closed with the last of them. */
const appsByGuard = new WeakMap<Engine, Set<object>>();

/**
 * Protects every route whose method is among `methods`, unless `@Idempotent()` or `everyRoute: false` says otherwise.
 * `IdempotencyModule.forRoot({ guard, ...options })`, or `forRootAsync` with `useFactory`, `useClass` or `useExisting`.
 * @example
 * ```ts server
 * import { Module } from "@nestjs/common";
 * import { createGuard } from "nevertwice";
 * import { IdempotencyModule } from "nevertwice/http/nest";
 * import { sqliteStore } from "nevertwice/stores/sqlite";
 *
 * const guard = createGuard({ store: sqliteStore({ file: "./nevertwice.db" }) });
 * const idempotency = IdempotencyModule.forRoot({ guard, scope: (request) => request.headers["x-customer"] });
 *
 * export const AppModule = Module({ imports: [idempotency] })(class {}); // usually as a decorator
 * ```
 */
export class IdempotencyModule extends Configurable {
  readonly #options: NestIdempotency;

  static {
    Inject(MODULE_OPTIONS)(IdempotencyModule, undefined, 0);
    // The interceptor's class works in every module of the app.
    Global()(IdempotencyModule);
    Module({
      providers: [
        {
          provide: IDEMPOTENCY_GUARD,
          useFactory: ({ guard }: NestIdempotency) => guard,
          inject: [MODULE_OPTIONS],
        },
        { provide: IDEMPOTENCY_OPTIONS, useFactory: httpOptions, inject: [MODULE_OPTIONS] },
        IdempotencyInterceptor,
        // Nest's own name for interceptors of the whole app.
        {
          provide: "APP_INTERCEPTOR",
          useFactory: appInterceptor,
          inject: [MODULE_OPTIONS, IdempotencyInterceptor],
        },
      ],
      exports: [IDEMPOTENCY_GUARD, IDEMPOTENCY_OPTIONS, IdempotencyInterceptor],
    })(IdempotencyModule);
  }

  constructor(options: NestIdempotency) {
    super();
    this.#options = options;
  }

  /** Called by Nest when the application starts. */
  onModuleInit(): void {
    const { guard } = this.#options;
    const apps = appsByGuard.get(guard) ?? new Set();
    appsByGuard.set(guard, apps.add(this));
  }

  /** Nest calls this after its server is closed, so no request is running. */
  async onApplicationShutdown(): Promise<void> {
    const { guard, closeGuard = NEST_MODULE_DEFAULTS.closeGuard } = this.#options;
    const apps = appsByGuard.get(guard);
    apps?.delete(this);
    if (closeGuard && (apps === undefined || apps.size === 0)) await guard.close();
  }
}

const UNPROTECTED: NestInterceptor = { intercept: (_context, next: CallHandler) => next.handle() };

function appInterceptor(
  { everyRoute = NEST_MODULE_DEFAULTS.everyRoute }: NestModuleOptions,
  interceptor: IdempotencyInterceptor,
): NestInterceptor {
  return everyRoute ? interceptor : UNPROTECTED;
}

function httpOptions<Req>(options: NestIdempotency<Req>): HttpOptions<Req> {
  const { guard: _guard, everyRoute: _everyRoute, closeGuard: _closeGuard, ...http } = options;
  return http as HttpOptions<Req>;
}

/**
 * The same as `IdempotencyModule.forRoot({ guard, ...options })`, but mistakes in the options are reported at once.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { createGuard } from "nevertwice";
 * import { idempotency } from "nevertwice/http/nest";
 * import { memoryStore } from "nevertwice/stores/memory";
 *
 * const guard = createGuard({ store: memoryStore() });
 * export const imports = [idempotency(guard, { scope: (request) => request.headers["x-customer"] })]; // of a module
 * ```
 */
export function idempotency<Req = AnyRequest>(
  guard: Engine,
  options: HttpOptions<Req> & NestModuleOptions,
): DynamicModule {
  const given: NestIdempotency<Req> = { ...options, guard };
  resolveHttpOptions(guard, httpOptions(given));
  return IdempotencyModule.forRoot(given);
}
