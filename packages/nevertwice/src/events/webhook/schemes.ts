/** The schemes of common senders, as each sender documents them. You can write your own in the same way. */
import type { WebhookScheme } from "./scheme.ts";

/** Standard Webhooks 1.0, signed with a shared secret (`whsec_…`). */
export const standardWebhooks: WebhookScheme = {
  sender: "standard-webhooks",
  id: { header: "webhook-id" },
  timestamp: { header: "webhook-timestamp" },
  signature: {
    header: "webhook-signature",
    prefix: "v1,",
    separator: " ",
    digest: "hmac-sha256",
    encoding: "base64",
  },
  signed: "{id}.{timestamp}.{body}",
  secret: { encoding: "base64", prefix: "whsec_" },
};

/** Standard Webhooks 1.0, signed with a private key. Give the public key (`whpk_…`) as the secret. */
export const standardWebhooksEd25519: WebhookScheme = {
  ...standardWebhooks,
  signature: { ...standardWebhooks.signature, prefix: "v1a,", digest: "ed25519" },
  secret: { encoding: "base64", prefix: "whpk_" },
};

/** Svix, which signs as Standard Webhooks does, with headers of its own names. */
export const svix: WebhookScheme = {
  ...standardWebhooks,
  sender: "svix",
  id: { header: "svix-id" },
  timestamp: { header: "svix-timestamp" },
  signature: { ...standardWebhooks.signature, header: "svix-signature" },
};

/** Stripe. The secret is the whole text, including `whsec_`. */
export const stripe: WebhookScheme = {
  sender: "stripe",
  id: { json: "id" },
  timestamp: { header: "stripe-signature", prefix: "t=", separator: "," },
  signature: {
    header: "stripe-signature",
    prefix: "v1=",
    separator: ",",
    digest: "hmac-sha256",
    encoding: "hex",
  },
  signed: "{timestamp}.{body}",
};

/** The id is not signed: an attacker who captures a request can send it again with another id. */
export const github: WebhookScheme = {
  sender: "github",
  id: { header: "x-github-delivery" },
  signature: {
    header: "x-hub-signature-256",
    prefix: "sha256=",
    digest: "hmac-sha256",
    encoding: "hex",
  },
  signed: "{body}",
};

/** The id is not signed, as with GitHub. */
export const shopify: WebhookScheme = {
  sender: "shopify",
  id: { header: "x-shopify-webhook-id" },
  signature: { header: "x-shopify-hmac-sha256", digest: "hmac-sha256", encoding: "base64" },
  signed: "{body}",
};

/** Events API. The id is the event's, because a retry has no id for the request. */
export const slack: WebhookScheme = {
  sender: "slack",
  id: { json: "event_id" },
  timestamp: { header: "x-slack-request-timestamp" },
  signature: { header: "x-slack-signature", prefix: "v0=", digest: "hmac-sha256", encoding: "hex" },
  signed: "v0:{timestamp}:{body}",
};

/** Signs the URL that it calls. Give it as `url` if a proxy changes it. */
export const square: WebhookScheme = {
  sender: "square",
  id: { json: "event_id" },
  signature: { header: "x-square-hmacsha256-signature", digest: "hmac-sha256", encoding: "base64" },
  signed: "{url}{body}",
};

/** Webhooks with a form as their body. The URL is signed, as with Square. The id is not. */
export const twilio: WebhookScheme = {
  sender: "twilio",
  id: { header: "i-twilio-idempotency-token" },
  signature: { header: "x-twilio-signature", digest: "hmac-sha1", encoding: "base64" },
  signed: "{url}{form}",
};
