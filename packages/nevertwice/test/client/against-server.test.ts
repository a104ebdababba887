/** Tests that both ends of it are ours here: the client's fetch against a handler with the HTTP layer before it. */
import { describe, expect, it } from "vitest";
import { createFetch, createSubmission, problemOf } from "../../src/client/index.ts";
import { createGuard } from "../../src/functions/guard.ts";
import { withIdempotency } from "../../src/http/fetch.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { deferred } from "../deferred.ts";
import { REPLAYED } from "../http/replayed-header.ts";

const QUICK = { firstPauseMs: 1, maxPauseMs: 1 } as const;
const URL = "http://localhost/orders";
const ORDER = {
  method: "POST",
  body: '{"sku":"a-1"}',
  headers: { "content-type": "application/json" },
} as const;

/** A shop that does the work and then loses its answer, a given number of times. */
function shop({ losses = 0, work = () => Promise.resolve() } = {}) {
  const orders: string[] = [];
  let lost = 0;
  const handle = withIdempotency(
    createGuard({ store: memoryStore() }),
    { scope: "anyone" },
    async (request: Request) => {
      await work();
      orders.push(await request.text());
      return new Response(`order ${orders.length}`, { status: 201 });
    },
  );
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const response = await handle(new Request(input, init));
    if (lost++ < losses) throw new TypeError("the answer was lost");
    return response;
  };
  return { fetch, orders };
}

describe("the client against our own server", () => {
  it("gets the answer of the first try after it was lost, and the work is done once", async () => {
    const { fetch, orders } = shop({ losses: 2 });
    const response = await createFetch({ ...QUICK, fetch })(URL, ORDER);
    expect([response.status, await response.text()]).toEqual([201, "order 1"]);
    expect(response.headers.get(REPLAYED)).toBe("true");
    expect(orders).toHaveLength(1);
  });

  it("waits while another try is still running, and gets its answer", async () => {
    const { promise: working, resolve: finish } = deferred();
    const { fetch, orders } = shop({ work: () => working });
    const first = createFetch({ fetch })(URL, { ...ORDER, idempotencyKey: "order-17" });
    const statuses: unknown[] = [];
    let answered: Promise<unknown> = Promise.resolve();
    const patient = createFetch({
      // A pause is over when the first is answered; nothing else here takes time.
      timer: {
        now: () => 0,
        after(ms, action) {
          if (ms < 60_000) void answered.then(action);
          return () => {};
        },
      },
      timeoutMs: 0,
      fetch,
      onRetry: ({ status }) => {
        statuses.push(status);
        answered = first;
        finish();
      },
    });
    const second = await patient(URL, { ...ORDER, idempotencyKey: "order-17" });
    expect(statuses).toEqual([409]);
    expect([second.status, await second.text()]).toEqual([201, "order 1"]);
    expect(await (await first).text()).toBe("order 1");
    expect(orders).toHaveLength(1);
  });

  it("gets a conflict for a reused key, and does not retry", async () => {
    const { fetch, orders } = shop();
    let sent = 0;
    const keyedFetch = createFetch({
      ...QUICK,
      fetch: (input, init) => {
        sent++;
        return fetch(input, init);
      },
    });
    await keyedFetch(URL, { ...ORDER, idempotencyKey: "order-17" });
    const response = await keyedFetch(URL, { ...ORDER, body: '{"sku":"b-2"}', idempotencyKey: "order-17" });
    expect(response.status).toBe(422);
    expect(await problemOf(response)).toMatchObject({ code: "conflict", retryable: false, status: 422 });
    expect(sent).toBe(2);
    expect(orders).toHaveLength(1);
  });

  it("submits a form once, however often it is clicked and its answer is lost", async () => {
    const { fetch, orders } = shop({ losses: 3 });
    const submission = createSubmission({ fetch: createFetch({ ...QUICK, retries: 1, fetch }) });
    const form = () => {
      const body = new FormData();
      body.append("sku", "a-1");
      return { method: "POST", body };
    };
    const clicks = await Promise.allSettled([1, 2, 3].map(() => submission.send(URL, form())));
    expect(clicks.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    const response = await submission.send(URL, form());
    expect(await response.text()).toBe("order 1");
    expect(orders).toHaveLength(1);
    expect(await (await submission.send(URL, form())).text()).toBe("order 2");
  });
});
