/** Tests the tRPC middleware with tRPC's own server and client over HTTP. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import {
  createTRPCClient,
  httpBatchLink,
  httpBatchStreamLink,
  httpLink,
  retryLink,
  TRPCClientError,
} from "@trpc/client";
import { initTRPC, TRPCError } from "@trpc/server";
import { createHTTPHandler } from "@trpc/server/adapters/standalone";
import { afterEach, describe, expect, it } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { attemptOf, callKey, idempotency, readProblem, type TrpcOptions } from "../../src/http/trpc.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { faultyStore } from "../../src/testing/faulty-store.ts";
import { deferred } from "../deferred.ts";

interface Context {
  readonly keys: string | undefined;
  readonly customer: string | undefined;
}

function build(options: Partial<TrpcOptions<Context>>, store: Store = memoryStore()) {
  const guard = createGuard({ store, purgeEveryMs: 0 });
  const t = initTRPC.context<Context>().create({
    errorFormatter: ({ shape, error }) => ({
      ...shape,
      data: { ...shape.data, problem: readProblem(error) },
    }),
  });
  const effects: string[] = [];
  const script: { before: (signal?: AbortSignal) => void | Promise<void> } = { before: () => {} };
  const paid = t.procedure.use(
    idempotency<Context>(guard, {
      scope: ({ ctx }) => ctx.customer,
      key: ({ ctx, batchIndex }) => callKey(ctx.keys, batchIndex),
      ...options,
    }),
  );
  const amount = (value: unknown) => {
    if (typeof value === "object" && value !== null && "amount" in value && typeof value.amount === "number")
      return { amount: value.amount };
    throw new TRPCError({ code: "BAD_REQUEST", message: "no amount" });
  };
  const router = t.router({
    pay: paid.input(amount).mutation(async ({ input, signal }) => {
      await script.before(signal);
      effects.push(`pay ${input.amount}`);
      return { id: `payment ${effects.length}` };
    }),
    ship: paid.mutation(({ ctx }) => {
      effects.push(`ship for ${ctx.customer}`);
      return { key: attemptOf(ctx)?.deriveKey("carrier") };
    }),
    fail: paid.mutation(() => {
      effects.push("fail");
      throw new TRPCError({ code: "PRECONDITION_FAILED", message: "sold out" });
    }),
    handle: paid.mutation(() => {
      effects.push("handle");
      return { stream: (async function* () {})() };
    }),
    runs: paid.query(() => effects.length),
    ticks: paid.subscription(async function* () {
      effects.push("subscribe");
      yield 1;
    }),
  });
  return { router, effects, script, guard };
}

type Router = ReturnType<typeof build>["router"];

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function serve(options: Partial<TrpcOptions<Context>> = {}, store: Store = memoryStore()) {
  const { router, effects, script } = build(options, store);
  const requests: string[] = [];
  const handler = createHTTPHandler({
    router,
    createContext: ({ req }): Context => ({
      keys: req.headers["idempotency-key"] as string | undefined,
      customer: (req.headers["x-customer"] as string | undefined) ?? undefined,
    }),
  });
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    handler(request, response);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, effects, script, requests };
}

/** Sends the keys of the calls of a batch as a list. */
const headers = ({ opList }: { opList: readonly { context: Record<string, unknown> }[] }) => ({
  "x-customer": "c-1",
  "idempotency-key": opList.map(({ context }) => context.key ?? "").join(", "),
});

function batching(url: string, isStreamed: boolean) {
  const link = isStreamed ? httpBatchStreamLink({ url, headers }) : httpBatchLink({ url, headers });
  return createTRPCClient<Router>({ links: [link] });
}

function single(url: string, customer: string | undefined = "c-1") {
  const headersOfOne = ({ op }: { op: { context: Record<string, unknown> } }) => ({
    ...(customer === "" ? {} : { "x-customer": customer }),
    ...(op.context.key === undefined ? {} : { "idempotency-key": String(op.context.key) }),
  });
  return createTRPCClient<Router>({
    links: [httpLink({ url, headers: headersOfOne })],
  });
}

const withKey = (key: string) => ({ context: { key } });

/** The code and the problem that the client got. */
async function refusal(call: Promise<unknown>) {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof TRPCClientError)) throw new Error(`no refusal: ${String(error)}`);
  const { code, httpStatus, problem } = error.data ?? {};
  return { code, httpStatus, problem: problem?.code, message: error.message };
}

describe("a mutation", () => {
  it("runs once, and its duplicate gets the same value", async () => {
    const { url, effects } = await serve();
    const client = single(url);
    const first = await client.pay.mutate({ amount: 5 }, withKey("k1"));
    expect(await client.pay.mutate({ amount: 5 }, withKey("k1"))).toEqual(first);
    expect(await client.pay.mutate({ amount: 5 }, withKey("k2"))).not.toEqual(first);
    expect(effects).toEqual(["pay 5", "pay 5"]);
  });

  it("with the key of another one is refused with a code", async () => {
    const { url, effects } = await serve();
    const client = single(url);
    await client.pay.mutate({ amount: 5 }, withKey("k1"));
    expect(await refusal(client.pay.mutate({ amount: 6 }, withKey("k1")))).toEqual({
      code: "UNPROCESSABLE_CONTENT",
      httpStatus: 422,
      problem: "conflict",
      message: "conflict: This key was used for a different request; use a new key for new work.",
    });
    expect(effects).toEqual(["pay 5"]);
  });

  it("is refused by the application's own error, if its function returns one", async () => {
    const { url, effects } = await serve({
      required: true,
      refusal: ({ code, detail, retryAfterSeconds }, { path }) => {
        if (code === "scope-missing") throw new Error("broken");
        if (code === "key-missing") return undefined;
        return new TRPCError({
          code: "CONFLICT",
          message: `${path} ${code} ${typeof detail} ${retryAfterSeconds}`,
        });
      },
    });
    const client = single(url);
    await client.pay.mutate({ amount: 5 }, withKey("k1"));
    expect(await refusal(client.pay.mutate({ amount: 6 }, withKey("k1")))).toMatchObject({
      code: "CONFLICT",
      message: "pay conflict string undefined",
    });
    expect(await refusal(client.pay.mutate({ amount: 6 }))).toMatchObject({ problem: "key-missing" });
    expect(await refusal(single(url, "").pay.mutate({ amount: 6 }, withKey("k2")))).toMatchObject({
      problem: "scope-missing",
    });
    expect(effects).toEqual(["pay 5"]);
  });

  it("waits for its duplicate that is running, or is refused", async () => {
    for (const onPending of ["wait", "reject"] as const) {
      const { url, effects, script } = await serve({ onPending });
      const client = single(url);
      const [began, finish] = [deferred(), deferred()];
      script.before = () => {
        began.resolve();
        return finish.promise;
      };
      const first = client.pay.mutate({ amount: 5 }, withKey("k1"));
      await began.promise;
      const second = client.pay.mutate({ amount: 5 }, withKey("k1"));
      if (onPending === "reject")
        expect(await refusal(second)).toMatchObject({
          code: "CONFLICT",
          httpStatus: 409,
          problem: "pending",
        });
      finish.resolve();
      if (onPending === "wait") expect(await second).toEqual(await first);
      else await first;
      expect(effects).toEqual(["pay 5"]);
    }
  });

  it("that threw runs again, or answers with its error if that is remembered", async () => {
    for (const onFailure of ["release", "remember"] as const) {
      const { url, effects } = await serve({ onFailure });
      const client = single(url);
      const first = await refusal(client.fail.mutate(undefined, withKey("k1")));
      expect(first).toMatchObject({ code: "PRECONDITION_FAILED", httpStatus: 412, message: "sold out" });
      expect(await refusal(client.fail.mutate(undefined, withKey("k1")))).toEqual(first);
      expect(effects.length).toBe(onFailure === "release" ? 2 : 1);
    }
  });

  it("whose input is refused leaves its key free", async () => {
    const { url, effects } = await serve();
    const client = single(url);
    const bad = client.pay.mutate({ amount: "5" } as never, withKey("k1"));
    expect(await refusal(bad)).toMatchObject({ code: "BAD_REQUEST", message: "no amount" });
    await client.pay.mutate({ amount: 5 }, withKey("k1"));
    expect(effects).toEqual(["pay 5"]);
  });

  it("whose value cannot be kept is not repeated", async () => {
    const { url, effects } = await serve();
    const client = batching(url, true);
    await client.handle.mutate(undefined, withKey("k1"));
    expect(await refusal(client.handle.mutate(undefined, withKey("k1")))).toMatchObject({
      problem: "not-kept",
    });
    expect(effects).toEqual(["handle"]);
  });

  it("without a key runs unguarded, unless one is required", async () => {
    const open = await serve();
    for (const _ of [1, 2]) await single(open.url).pay.mutate({ amount: 5 });
    expect(open.effects.length).toBe(2);
    const strict = await serve({ required: true });
    const client = single(strict.url);
    expect(await refusal(client.pay.mutate({ amount: 5 }))).toMatchObject({
      code: "BAD_REQUEST",
      problem: "key-missing",
    });
    expect(await refusal(client.pay.mutate({ amount: 5 }, withKey('"')))).toMatchObject({
      problem: "key-invalid",
    });
    expect(strict.effects).toEqual([]);
  });

  it("belongs to its caller, and is refused without one", async () => {
    const { url, effects } = await serve();
    for (const customer of ["c-1", "c-2"]) await single(url, customer).ship.mutate(undefined, withKey("k1"));
    expect(effects).toEqual(["ship for c-1", "ship for c-2"]);
    expect(await refusal(single(url, "").ship.mutate(undefined, withKey("k1")))).toMatchObject({
      code: "INTERNAL_SERVER_ERROR",
      problem: "scope-missing",
    });
  });

  it("that fails because its client is gone leaves an unknown outcome", async () => {
    const { url, effects, script } = await serve({ onLapsed: "hold" });
    const client = single(url);
    const [began, gone] = [deferred<AbortSignal>(), deferred()];
    script.before = async (signal) => {
      began.resolve(signal as AbortSignal);
      await gone.promise;
      throw new Error("the client is gone");
    };
    const leaving = new AbortController();
    const first = client.pay
      .mutate({ amount: 5 }, { ...withKey("k1"), signal: leaving.signal })
      .catch(() => "left");
    const signal = await began.promise;
    leaving.abort();
    expect(await first).toBe("left");
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve());
    });
    gone.resolve();
    await expect
      .poll(async () => (await refusal(client.pay.mutate({ amount: 5 }, withKey("k1")))).problem, {
        timeout: 30_000,
      })
      .toBe("unknown");
    expect(effects).toEqual([]);
  });

  it("is refused with a code while the store is away", async () => {
    const store = faultyStore(memoryStore());
    const { url, effects } = await serve({}, store);
    store.setRates({ refuse: 1 });
    expect(await refusal(single(url).pay.mutate({ amount: 5 }, withKey("k1")))).toMatchObject({
      code: "SERVICE_UNAVAILABLE",
      httpStatus: 503,
      problem: "unavailable",
    });
    expect(effects).toEqual([]);
  });
});

describe.each([false, true])("a batch, streamed: %s,", (isStreamed) => {
  it("has a key for each call, and one that fails is run again alone", async () => {
    const { url, effects, requests } = await serve();
    const client = batching(url, isStreamed);
    const send = () =>
      Promise.allSettled([
        client.pay.mutate({ amount: 5 }, withKey("k1")),
        client.fail.mutate(undefined, withKey("k2")),
        client.pay.mutate({ amount: 5 }, withKey("k3")),
        client.ship.mutate(),
      ]);
    const first = await send();
    const again = await send();
    expect(requests).toEqual(["/pay,fail,pay,ship?batch=1", "/pay,fail,pay,ship?batch=1"]);
    expect(first.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect([again[0], again[2]]).toEqual([first[0], first[2]]);
    const times = (effect: string) => effects.filter((one) => one === effect).length;
    expect([times("pay 5"), times("fail"), times("ship for c-1")]).toEqual([2, 2, 2]);
  });

  it("tells a refused call its code, and the others their values", async () => {
    const { url } = await serve({ required: true });
    const client = batching(url, isStreamed);
    const [paid, refused] = await Promise.all([
      client.pay.mutate({ amount: 5 }, withKey("k1")),
      refusal(client.ship.mutate()),
    ]);
    expect(paid).toEqual({ id: "payment 1" });
    expect(refused).toMatchObject({ code: "BAD_REQUEST", problem: "key-missing" });
  });
});

it("a client that retries a failed batch repeats only what did not happen", async () => {
  const { url, effects, script } = await serve();
  let tries = 0;
  script.before = () => {
    if (++tries === 1) throw new Error("the database is away");
  };
  const client = createTRPCClient<Router>({
    links: [
      retryLink({
        retry: ({ error, attempts }) => error.data?.code === "INTERNAL_SERVER_ERROR" && attempts < 3,
      }),
      httpBatchLink({ url, headers }),
    ],
  });
  await Promise.all([
    client.pay.mutate({ amount: 5 }, withKey("k1")),
    client.ship.mutate(undefined, withKey("k2")),
  ]);
  expect(effects).toEqual(["ship for c-1", "pay 5"]);
});

it("queries and subscriptions are not touched", async () => {
  const { url, effects } = await serve({ required: true });
  const client = single(url);
  for (const _ of [1, 2]) {
    const response = await fetch(`${url}/ticks`, {
      headers: { "idempotency-key": "k1", "x-customer": "c-1" },
    });
    expect(await response.text()).toContain("data: 1");
  }
  expect(effects).toEqual(["subscribe", "subscribe"]);
  expect(await client.runs.query(undefined, withKey("k1"))).toBe(2);
});

it("a procedure gets its attempt", async () => {
  const { url } = await serve();
  const { key } = await single(url).ship.mutate(undefined, withKey("k1"));
  expect(key).toMatch(/^[\w-]{43}$/);
});

it.each([
  [undefined, 0, undefined],
  [null, 0, undefined],
  ["a", 0, "a"],
  ["a", 1, undefined],
  ['"a, b", c', 0, "a, b"],
  ['"a, b", c', 1, "c"],
  [", b", 0, undefined],
  [", b", 1, "b"],
  ['"a" b', 0, ""],
  ['"a', 0, ""],
])("callKey(%j, %j) is %j", (header, index, key) => {
  expect(callKey(header, index)).toBe(key);
});

it("refuses options that it does not know, or that are missing", () => {
  const guard = createGuard({ store: memoryStore(), purgeEveryMs: 0 });
  const key = () => "k";
  expect(() => idempotency(guard, { scope: "anyone", key, wait: 1 } as never)).toThrow("options-invalid");
  expect(() => idempotency(guard, { key } as never)).toThrow("options-invalid: scope is missing");
  expect(() => idempotency(guard, { scope: "anyone" } as never)).toThrow("options-invalid: key is missing");
});
