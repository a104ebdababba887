/**
 * Tests the schemes of src/events/webhook/schemes.ts against the packages that their senders publish: what a package signs is
 * accepted, and every change that the package refuses is refused here too.
 */
import { Webhooks as Octokit } from "@octokit/webhooks";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";
import { describe, expect, it, vi } from "vitest";
import { github, standardWebhooks, stripe, svix, type WebhookScheme } from "../../src/events/webhook.ts";
import { receiver } from "./webhook-scene.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER_SECRET = "whsec_b2xkIHNlY3JldCBvZiBvdXJz";
const NOW_SECONDS = 1_700_000_000;
const MINUTE = 60;
const BODIES = [
  '{"id":"evt_1"}',
  '{"id":"evt_1","text":"\u00fcn\u00efc\u00f6d\u00e9 \u2603 \ud83d\ude00"}',
  `{"id":"evt_1","n":"${"9".repeat(20_000)}"}`,
];

type Headers = Readonly<Record<string, string>>;

interface Sender {
  readonly name: string;
  readonly scheme: WebhookScheme;
  /** What the sender's own package puts into the headers. */
  sign(body: string, secret: string, seconds: number): Headers | Promise<Headers>;
  /** Throws, or returns false, if the sender's own package refuses. */
  verify(body: string, headers: Headers, secret: string): unknown;
}

/** Svix and Standard Webhooks differ in the names of their headers only. */
function standard(
  name: string,
  scheme: WebhookScheme,
  { prefix, Package }: { readonly prefix: string; readonly Package: typeof StandardWebhook | typeof Svix },
): Sender {
  return {
    name,
    scheme,
    sign: (body, secret, seconds) => ({
      [`${prefix}-id`]: "msg_1",
      [`${prefix}-timestamp`]: String(seconds),
      [`${prefix}-signature`]: new Package(secret).sign("msg_1", new Date(seconds * 1_000), body),
    }),
    verify: (body, headers, secret) => new Package(secret).verify(body, { ...headers }),
  };
}

const { webhooks: stripeWebhooks } = new Stripe("sk_test_1");

const SENDERS: readonly Sender[] = [
  standard("Standard Webhooks", standardWebhooks, { prefix: "webhook", Package: StandardWebhook }),
  standard("Svix", svix, { prefix: "svix", Package: Svix }),
  {
    name: "Stripe",
    scheme: stripe,
    sign: (payload, secret, timestamp) => ({
      "stripe-signature": stripeWebhooks.generateTestHeaderString({ payload, secret, timestamp }),
    }),
    verify: (body, headers, secret) =>
      stripeWebhooks.constructEvent(body, headers["stripe-signature"] ?? "", secret),
  },
  {
    name: "GitHub",
    scheme: github,
    sign: async (body, secret) => ({
      "x-github-delivery": "msg_1",
      "x-hub-signature-256": await new Octokit({ secret }).sign(body),
    }),
    verify: (body, headers, secret) =>
      new Octokit({ secret }).verify(body, headers["x-hub-signature-256"] ?? ""),
  },
];

/** One header of the request with other text in it; the header of the signature is the last one. */
function withLast(headers: Headers, change: (value: string) => string): Headers {
  const [name = "", value = ""] = Object.entries(headers).at(-1) ?? [];
  return { ...headers, [name]: change(value) };
}

async function isAccepted({ verify }: Sender, body: string, headers: Headers): Promise<boolean> {
  try {
    return (await verify(body, headers, SECRET)) !== false;
  } catch {
    return false;
  }
}

/** The packages read the clock of the process. */
const stopClock = () => vi.spyOn(Date, "now").mockReturnValue(NOW_SECONDS * 1_000);

describe.each(SENDERS)("$name, signed by its own package", (sender) => {
  const { scheme, sign } = sender;
  const [body = ""] = BODIES;

  it("is accepted, and processed once", async () => {
    stopClock();
    for (const each of BODIES) {
      const { status, ids } = receiver(scheme, { secret: SECRET }, NOW_SECONDS);
      const headers = await sign(each, SECRET, NOW_SECONDS);
      expect(await isAccepted(sender, each, headers)).toBe(true);
      expect(await status({ headers, body: each })).toBe(204);
      expect(await status({ headers, body: each })).toBe(204);
      expect(ids).toHaveLength(1);
    }
  });

  it("is accepted with the old secret or the new one while both are known", async () => {
    const { status } = receiver(scheme, { secret: [SECRET, OTHER_SECRET] }, NOW_SECONDS);
    for (const secret of [SECRET, OTHER_SECRET])
      expect(await status({ headers: await sign(body, secret, NOW_SECONDS), body })).toBe(204);
  });

  it("is refused with every change that the package refuses", async () => {
    stopClock();
    const { status, ids } = receiver(scheme, { secret: SECRET }, NOW_SECONDS);
    const headers = await sign(body, SECRET, NOW_SECONDS);
    const signed = (change: (value: string) => string) => withLast(headers, change);
    const changes: readonly (readonly [what: string, body: string, headers: Headers])[] = [
      ["another body", `${body} `, headers],
      ["no body", "", headers],
      ["another secret", body, await sign(body, OTHER_SECRET, NOW_SECONDS)],
      ["no signature", body, signed(() => "")],
      ["half a signature", body, signed((value) => value.slice(0, -20))],
      ["another signature", body, signed((value) => value.replace(/.{4}(?==*$)/, "0000"))],
      ["a version that is unknown", body, signed((value) => value.replace(/v1|sha256/, "v9"))],
    ];
    for (const [what, changed, sent] of changes) {
      expect(await isAccepted(sender, changed, sent), `${what}: the package`).toBe(false);
      expect(await status({ headers: sent, body: changed }), what).toBe(401);
    }
    expect(ids).toEqual([]);
  });
});

it.each(SENDERS.filter(({ scheme }) => scheme.timestamp !== undefined))(
  "$name is refused when it is more than five minutes old, as its package does",
  async (sender) => {
    stopClock();
    const { status } = receiver(sender.scheme, { secret: SECRET }, NOW_SECONDS);
    const [body = ""] = BODIES;
    for (const [minutes, expected] of [
      [4, 204],
      [6, 401],
    ] as const) {
      const headers = await sender.sign(body, SECRET, NOW_SECONDS - minutes * MINUTE);
      expect(await isAccepted(sender, body, headers)).toBe(expected === 204);
      expect(await status({ headers, body })).toBe(expected);
    }
  },
);
