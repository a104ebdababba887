/** What a client sees of the payments that the recipes of web frameworks serve, whichever framework serves them. */
import { setTimeout } from "node:timers/promises";
import { expect } from "vitest";

/** A charge of this amount throws the first time. */
export const FAILS_FIRST = 13;

const CALLERS = 20;
const POLL_MS = 20;

interface Payment {
  readonly key?: string;
  readonly cents?: number;
  readonly customer?: string;
}

/** `charges` counts the charges that were made, outside of the process that serves the URL if there is one. */
export async function checkPayments(url: string, charges: () => number | Promise<number>): Promise<void> {
  const pay = ({ key, cents = 4_200, customer = "alice" }: Payment) =>
    fetch(`${url}/payments`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-customer": customer,
        ...(key === undefined ? {} : { "idempotency-key": key }),
      },
      body: JSON.stringify({ cents }),
    });
  /** As a client does that retries while its first request is still running. */
  async function payUntilDone(payment: Payment): Promise<Response> {
    const answer = await pay(payment);
    if (answer.status !== 409) return answer;
    await setTimeout(POLL_MS);
    return payUntilDone(payment);
  }

  expect((await pay({})).status, "without a key").toBe(400);
  expect(await charges()).toBe(0);

  const answers = await Promise.all(Array.from({ length: CALLERS }, () => payUntilDone({ key: "order-1" })));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1);
  expect(new Set(answers.map(({ headers }) => headers.get("location"))).size).toBe(1);
  const replayed = answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true");
  expect(replayed).toHaveLength(CALLERS - 1);
  expect(await charges()).toBe(1);

  expect((await pay({ key: "order-1", cents: 1 })).status, "another amount").toBe(422);
  expect(await charges()).toBe(1);

  expect((await pay({ key: "order-1", customer: "bob" })).status, "another customer").toBe(201);
  expect(await charges()).toBe(2);

  expect((await pay({ key: "order-2", cents: FAILS_FIRST })).status, "a handler that throws").toBe(500);
  expect((await pay({ key: "order-2", cents: FAILS_FIRST })).status, "its retry").toBe(201);
  expect(await charges()).toBe(3);
}
