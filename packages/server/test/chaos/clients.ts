/** Clients that use keys correctly: one key for each piece of work and all its tries, sent to any server that answers. */
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type { Answer, Refusal, Story } from "./referee.ts";

export interface ClientsOptions {
  readonly urls: readonly string[];
  readonly count: number;
  /** No new work starts after this time. */
  readonly durationMs: number;
  /** The longest time from the first try of a piece of work to its answer. */
  readonly patienceMs: number;
}

/** Some work is sent to two servers at once, like a double click. */
const DOUBLE_CLICKS = 0.25;
const ONE_TRY_MS = 30_000;

export async function runClients(options: ClientsOptions): Promise<readonly Story[]> {
  const { count, durationMs } = options;
  const endsAt = performance.now() + durationMs;
  const stories: Story[] = [];
  async function client(): Promise<void> {
    while (performance.now() < endsAt) {
      const key = randomUUID();
      const clicks = Math.random() < DOUBLE_CLICKS ? 2 : 1;
      stories.push(...(await Promise.all(Array.from({ length: clicks }, () => insist(key, options)))));
      await setTimeout(Math.random() * 200);
    }
  }
  await Promise.all(Array.from({ length: count }, client));
  return stories;
}

async function insist(key: string, { urls, patienceMs }: ClientsOptions): Promise<Story> {
  const refusals: Refusal[] = [];
  const until = performance.now() + patienceMs;
  let server = Math.floor(Math.random() * urls.length);
  while (performance.now() < until) {
    const told = await send(`${urls[server]}/orders`, key);
    if ("effect" in told) return { key, refusals, answer: told };
    refusals.push(told);
    server = (server + 1) % urls.length;
    await setTimeout(300 + Math.random() * 400);
  }
  return { key, refusals, answer: undefined };
}

async function send(url: string, key: string): Promise<Refusal | Answer> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key },
      body: '{"item":"book"}',
      signal: AbortSignal.timeout(ONE_TRY_MS),
    });
    const text = await response.text();
    const { status, headers } = response;
    if (response.ok) return { status, effect: JSON.parse(text).effect, at: performance.now() };
    const type = headers.get("content-type") ?? "none";
    const code = type.includes("json") ? (JSON.parse(text).code ?? "none") : "none";
    return { status, type, code, retryAfter: headers.get("retry-after") ?? undefined };
  } catch (error) {
    // Only a broken connection is expected; everything else must be reported.
    if (error instanceof SyntaxError)
      return { status: 1, type: "none", code: "unreadable", retryAfter: undefined };
    return { status: 0, type: "none", code: "none", retryAfter: undefined };
  }
}
