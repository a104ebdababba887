/** Calls of real SDKs, sent to a gateway on this machine. They send a body each, with a key. */
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import Stripe from "stripe";

export interface SdkCallOptions {
  readonly port: number;
  readonly key: string;
  /** How often the SDK sends the request again. */
  readonly retries?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export type SdkCall = (options: SdkCallOptions) => Promise<unknown>;

function stripeAt({ port, retries = 0 }: SdkCallOptions): Stripe {
  return new Stripe("sk_test_1", {
    host: "127.0.0.1",
    port,
    protocol: "http",
    maxNetworkRetries: retries,
    telemetry: false,
  });
}

export const createCharge: SdkCall = (options) =>
  stripeAt(options).charges.create(
    { amount: 700, currency: "eur", source: "tok_visa" },
    { idempotencyKey: options.key },
  );

export const readCharge: SdkCall = (options) => stripeAt(options).charges.retrieve("ch_1");

export const completeChat: SdkCall = ({ port, key, retries = 0, headers }) =>
  new OpenAI({
    apiKey: "sk-1",
    baseURL: `http://127.0.0.1:${port}/v1`,
    maxRetries: retries,
  }).chat.completions.create(
    { model: "m", messages: [{ role: "user", content: "hello" }] },
    { headers: { "Idempotency-Key": key, ...headers } },
  );

export const createMessage: SdkCall = ({ port, key, retries = 0, headers }) =>
  new Anthropic({ apiKey: "sk-1", baseURL: `http://127.0.0.1:${port}`, maxRetries: retries }).messages.create(
    { model: "m", max_tokens: 1, messages: [{ role: "user", content: "hello" }] },
    { headers: { "Idempotency-Key": key, ...headers } },
  );
