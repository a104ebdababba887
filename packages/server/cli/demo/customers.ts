/** The customers of the demo: they click twice, lose their connection, retry, and reuse keys by mistake. */
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type { Tally } from "./tally.ts";

export interface DemoUrls {
  /** Where charges are sent: the gateway. */
  readonly gateway: string;
  /** Where holds are placed and events are marked. */
  readonly api: string;
}

export interface Customers {
  /** One customer visits the shop; resolves when the visit is over. */
  visit(): Promise<void>;
}

const NAMES = ["ada", "bob", "cleo", "dan", "eve", "finn", "gus", "hana"] as const;
const SEATS = 12;
const TRIES = 12;
/** In percent. */
const CLICKS_TWICE = 30;
const LOSES_CONNECTION = 20;
const USES_KEY_AGAIN = 3;
const HOLDS_FOR_MS = 4_000;

interface ShopAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

export function createCustomers({ gateway, api }: DemoUrls, tally: Tally): Customers {
  /** Undefined if the request failed or timed out. */
  async function send(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: object,
    timeoutMs = 10_000,
  ): Promise<ShopAnswer | undefined> {
    tally.sent();
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(timeoutMs),
      });
      return { status: response.status, body: (await response.json()) as ShopAnswer["body"] };
    } catch {
      return undefined;
    }
  }

  /** Repeats the request with the same key until it gets a final answer. */
  async function insist(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: object,
  ): Promise<ShopAnswer | undefined> {
    for (let tries = 1; tries <= TRIES; tries++) {
      const isCutOff = tries < TRIES / 2 && happens(LOSES_CONNECTION);
      const answer = await send(url, headers, body, isCutOff ? 5 + Math.random() * 60 : undefined);
      const isSettled =
        answer !== undefined &&
        answer.status < 500 &&
        (answer.status !== 409 || answer.body.retryable !== true);
      if (isSettled) return answer;
      await setTimeout(100 + Math.random() * 200 * tries);
    }
    tally.gaveUp();
    return undefined;
  }

  async function twice(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: object,
  ): Promise<ShopAnswer | undefined> {
    const clicks = happens(CLICKS_TWICE) ? 2 : 1;
    const answers = await Promise.all(Array.from({ length: clicks }, () => insist(url, headers, body)));
    const received = answers.filter((answer) => answer !== undefined);
    const key = headers["idempotency-key"] as string;
    for (const { status, body: content } of received) tally.answered(key, JSON.stringify([status, content]));
    return received[0];
  }

  async function buy(customer: string): Promise<void> {
    const key = randomUUID();
    const amount = 100 + Math.floor(Math.random() * 9_900);
    const headers = { "idempotency-key": JSON.stringify(key), "x-customer": customer };
    const paid = await twice(`${gateway}/charges`, headers, { amount });
    if (paid?.status !== 201) return;
    if (happens(USES_KEY_AGAIN)) {
      const again = await send(`${gateway}/charges`, headers, { amount: amount + 1 });
      if (again?.status === 422) tally.refused();
    }
    await mail(key);
  }

  /** Two workers receive the same order event; only the first one sends the mail. */
  async function mail(order: string): Promise<void> {
    const marks = [0, 1].map(() => send(`${api}/v1/events`, {}, { source: "shop", id: order }));
    for (const marked of await Promise.all(marks)) {
      if (marked?.body.first === true) tally.effect("mail", order);
    }
  }

  async function reserve(requester: string): Promise<void> {
    const resource = `seat ${1 + Math.floor(Math.random() * SEATS)}`;
    const key = () => ({ "idempotency-key": JSON.stringify(randomUUID()) });
    const placed = await twice(`${api}/v1/holds`, key(), { resource, requester, durationMs: HOLDS_FOR_MS });
    if (placed?.status !== 201) return;
    const id = String(placed.body.id);
    await setTimeout(200 + Math.random() * 1_500);
    const chance = Math.random() * 100;
    // Some customers never return; their hold expires.
    if (chance < 25) return;
    const end = chance < 55 ? "release" : "confirm";
    const done = await twice(`${api}/v1/holds/${id}/${end}`, key(), {});
    if (end === "release" || done?.status !== 200) return;
    tally.effect("seat", id);
    // Gives the seat back, so that the dashboard keeps changing.
    await setTimeout(500 + Math.random() * 2_000);
    await twice(`${api}/v1/holds/${id}/give-back`, key(), {});
  }

  return {
    visit() {
      const customer = NAMES[Math.floor(Math.random() * NAMES.length)] as string;
      return happens(70) ? buy(customer) : reserve(customer);
    },
  };
}

function happens(percent: number): boolean {
  return Math.random() * 100 < percent;
}
