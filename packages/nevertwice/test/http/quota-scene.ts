/** Guards on one store, each behind its own HTTP layer like a process of its own, and a flood of requests. */
import type { Clock } from "../../src/core/clock.ts";
import type { Store } from "../../src/core/store.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import type { HttpOptions } from "../../src/http/options.ts";
import { createGuard, type Guard, type GuardOptions } from "../../src/index.ts";

/** The operation under which blocks of a quota are recorded. */
export const QUOTA_OPERATION = "nevertwice:quota";

export interface Order {
  readonly key: string;
  /** Default "tenant". */
  readonly tenant?: string;
  /** How many bytes the answer's body has; default 2. */
  readonly bytes?: number;
  /** Default 201. */
  readonly status?: number;
}

export interface Layer {
  readonly guard: Guard;
  /** How often the handler ran. */
  runs(): number;
  /** Sets what the handler does in addition. */
  onRun(action: () => void): void;
  send(order: Order): Promise<Response>;
  /** The status of one request for this key. */
  status(key: string, tenant?: string): Promise<number>;
}

export function layerOn(
  store: Store,
  options: Partial<HttpOptions<Request>>,
  { guard: given, ...guardOptions }: Partial<GuardOptions> & { guard?: Guard } = {},
): Layer {
  const guard = given ?? createGuard({ store, purgeEveryMs: 0, ...guardOptions });
  let runs = 0;
  let act = () => {};
  const scope = (request: Request) => request.headers.get("x-tenant") ?? undefined;
  const serve = withIdempotency(guard, { scope, ...options }, (request: Request) => {
    runs++;
    act();
    const { bytes, status } = JSON.parse(request.headers.get("x-answer") ?? "{}");
    return new Response("x".repeat(bytes), { status });
  });
  const send = ({ key, tenant = "tenant", bytes = 2, status = 201 }: Order) =>
    serve(
      new Request("http://service.test/orders", {
        method: "POST",
        headers: {
          "idempotency-key": key,
          "x-tenant": tenant,
          "x-answer": JSON.stringify({ bytes, status }),
        },
      }),
    );
  return {
    guard,
    runs: () => runs,
    onRun(action) {
      act = action;
    },
    send,
    status: async (key, tenant) => (await send({ key, ...(tenant === undefined ? {} : { tenant }) })).status,
  };
}

export interface Flood {
  /** How many requests were answered with each status. */
  readonly counts: Readonly<Record<number, number>>;
  /** How many fresh keys got through on all layers. */
  readonly through: number;
}

/** Sends fresh keys to each layer in turn, `width` at a time. */
export async function flood(
  layers: readonly Layer[],
  requests: number,
  orderOf: (index: number) => Order = (index) => ({ key: `key-${index}` }),
  width = 50,
): Promise<Flood> {
  const counts: Record<number, number> = {};
  let next = 0;
  const lane = async () => {
    while (next < requests) {
      const index = next++;
      const { status } = await (layers[index % layers.length] as Layer).send(orderOf(index));
      counts[status] = (counts[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
  return { counts, through: layers.reduce((sum, layer) => sum + layer.runs(), 0) };
}

/** A store that is broken on purpose: each process sees only its own blocks, so no count is shared. */
export function countingAlone(shared: Store, own: Store): Store {
  const blocks = new Set<string>();
  return {
    ...shared,
    claim(request) {
      if (request.parts.operation !== QUOTA_OPERATION) return shared.claim(request);
      blocks.add(request.id);
      return own.claim(request);
    },
    complete: (request) => (blocks.has(request.id) ? own : shared).complete(request),
  };
}

/** Layers that share a store, as processes do. */
export function processes(
  count: number,
  store: Store,
  options: Partial<HttpOptions<Request>>,
  clock?: Clock,
): readonly Layer[] {
  const timed = clock === undefined ? options : { clock, ...options };
  return Array.from({ length: count }, () => layerOn(store, timed));
}
