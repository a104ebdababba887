/** The HTTP response to a sender for a delivery: a status that makes it stop, or one that makes it send again. */
import { isNevertwiceError, type NevertwiceError } from "../core/errors.ts";
import { type Check, oneOf } from "../core/option-checks.ts";
import type { Delivery } from "./delivery.ts";

/** The HTTP response to a received event. */
export interface HttpAnswer {
  /** The HTTP status. */
  readonly status: number;
  /** The headers, with names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body; empty if there is none. */
  readonly body: string | Uint8Array<ArrayBuffer>;
}

export interface AnswerOptions {
  /**
   * The response for a rejected message. `refuse` (default) shows it as failed at the sender, which sends it again on its
   * schedule. `accept` makes the sender stop.
   */
  readonly onRejected?: "refuse" | "accept" | undefined;
}

export const ANSWER_CHECKS: { readonly onRejected: Check } = { onRejected: oneOf("refuse", "accept") };

export const ACCEPTED: HttpAnswer = { status: 204, headers: {}, body: "" };

const LATER_STATUS = {
  pending: 409,
  conflict: 409,
  unknown: 409,
  unavailable: 503,
  "lease-lost": 500,
  failed: 500,
} as const;

export function toHttpAnswer(delivery: Delivery, { onRejected = "refuse" }: AnswerOptions): HttpAnswer {
  switch (delivery.verdict) {
    case "acknowledge":
      return ACCEPTED;
    case "later": {
      // Never zero: the sender would retry immediately.
      const seconds = Math.max(1, Math.ceil(delivery.afterMs / 1_000));
      const { status } = delivery;
      return problem(LATER_STATUS[status], status, { "retry-after": String(seconds) });
    }
    case "reject":
      if (onRejected === "accept") return ACCEPTED;
      if (delivery.status === "refused" && isNevertwiceError(delivery.error)) return refusal(delivery.error);
      return problem(delivery.status === "refused" ? 400 : 422, delivery.status);
  }
}

/** Safe to send: the messages of our errors contain no key and no part of the body. */
export function refusal({ status, code, message }: NevertwiceError): HttpAnswer {
  return problem(status, code, {}, message.slice(code.length + 2));
}

function problem(
  status: number,
  code: string,
  headers: Readonly<Record<string, string>> = {},
  detail?: string,
): HttpAnswer {
  return {
    status,
    headers: { "content-type": "application/json", "cache-control": "no-store", ...headers },
    body: JSON.stringify({ code, ...(detail === undefined ? {} : { detail }) }),
  };
}

export function toResponse({ status, headers, body }: HttpAnswer): Response {
  return new Response(body.length === 0 ? null : body, { status, headers });
}
