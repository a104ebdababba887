/** Delivers messages of the outbox over HTTP, signed as Standard Webhooks 1.0. */
import { createHmac } from "node:crypto";
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isFunction, wholeFrom } from "../core/option-checks.ts";
import { bodyBytes, type OutboxMessage } from "./message.ts";
import type { Deliver } from "./relay-options.ts";
import { permanent, retryAfter } from "./verdict.ts";

/** Options of `httpDeliverer`. */
export interface HttpDelivererOptions {
  /** Where to send each message. */
  readonly url: string | ((message: OutboxMessage) => string);
  /**
   * The secret shared with the receiver, `whsec_` and base64. To replace one, give both for a while, the new one first: the
   * request carries a signature for each.
   */
  readonly secret: string | readonly string[];
  /** How long to wait for the response; default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Whether no retry can help after a response with this status: the message is parked. Default: 410 alone. */
  readonly isPermanent?: ((status: number) => boolean) | undefined;
  /** Sends the request; default: the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
}

const TIMEOUT_MS = 10_000;
const MAX_SECRETS = 10;
const PREFIX = "whsec_";
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
/** Standard Webhooks asks for 24 to 64 bytes. */
const LEAST_SECRET_BYTES = 24;

/** Headers that belong to the connection, or that we write ourselves. */
const OWN_HEADERS =
  /^(webhook-.*|host|content-length|connection|transfer-encoding|keep-alive|te|trailer|upgrade|expect|proxy-.*)$/;

/**
 * Sends a POST for each message, with its id as `webhook-id`. A response of 2xx within the time means delivered. Anything
 * else, a redirect too, is tried again later: after the time that `Retry-After` says, up to the relay's `retry.capMs`. The
 * body of the response is not read.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { httpDeliverer } from "nevertwice/outbox/http";
 *
 * const secret = process.env.OUTBOX_SECRET ?? ""; // whsec_ and base64, shared with the receiver
 * export const deliver = httpDeliverer({ url: "https://billing.example.com/events", secret }); // outbox.relay({ deliver })
 * ```
 */
export function httpDeliverer(options: HttpDelivererOptions): Deliver {
  checkOptions(options, {
    url: isUrl,
    secret: (_, value) => void toKeys(value),
    timeoutMs: wholeFrom(1),
    isPermanent: isFunction,
    fetch: isFunction,
  });
  isUrl("url", options.url);
  const { url, timeoutMs = TIMEOUT_MS, isPermanent = (status) => status === 410 } = options;
  const keys = toKeys(options.secret);
  const send = options.fetch ?? fetch;

  return async (message, { signal }) => {
    const { bytes, contentType } = bodyBytes(message.body);
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const response = await send(typeof url === "function" ? url(message) : url, {
      method: "POST",
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      headers: {
        "content-type": contentType,
        ...passedOn(message),
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": keys.map((key) => sign(key, message.id, timestamp, bytes)).join(" "),
      },
      body: bytes as Uint8Array<ArrayBuffer>,
    });
    // A response that never ends would keep the connection.
    await response.body?.cancel().catch(() => {});
    if (response.ok) return;
    const error = new Error(`the receiver answered ${response.status}`);
    if (isPermanent(response.status)) throw permanent(error);
    const waitMs = retryAfterMs(response.headers.get("retry-after"));
    throw waitMs === undefined ? error : retryAfter(waitMs, error);
  };
}

function passedOn({ headers }: OutboxMessage): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN_HEADERS.test(name)));
}

function sign(key: Buffer, id: string, timestamp: string, body: Uint8Array): string {
  const digest = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  return `v1,${digest}`;
}

/** Seconds, or a date. */
function retryAfterMs(value: string | null): number | undefined {
  if (value === null) return undefined;
  const ms = /^\d{1,9}$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, Math.ceil(ms)) : undefined;
}

/** No error here contains a part of a secret. */
function toKeys(secret: unknown): readonly Buffer[] {
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret];
  if (secrets.length === 0 || secrets.length > MAX_SECRETS)
    throw new NevertwiceError(
      "options-invalid",
      `secret must be one secret, or a list of 1 to ${MAX_SECRETS}.`,
    );
  return secrets.map((each) => {
    const text = typeof each === "string" && each.startsWith(PREFIX) ? each.slice(PREFIX.length) : "";
    const key = Buffer.from(text, "base64");
    if (BASE64.test(text) && key.length >= LEAST_SECRET_BYTES) return key;
    throw new NevertwiceError(
      "options-invalid",
      `secret must be ${PREFIX} and at least ${LEAST_SECRET_BYTES} random bytes in base64.`,
    );
  });
}

function isUrl(name: string, value: unknown): void {
  if (typeof value === "function") return;
  if (typeof value === "string" && /^https?:/.test(value) && URL.canParse(value)) return;
  throw new NevertwiceError(
    "options-invalid",
    `${name} must be an http or https URL, or a function that returns one.`,
  );
}
