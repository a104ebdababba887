/** The SDK of Stripe. It makes a key for every call, which is lost with the call, so the application gives its own. */
import Stripe from "stripe";
import type { Client } from "../client.ts";

export const stripe: Client = {
  name: "stripe",
  packages: ["stripe"],
  program: import.meta.url,
  needs: "a key of your own for each call: the SDK makes one, and loses it with the call",
  makesKeys: true,
  route: 'profile `"stripe-v1"`',
  async call({ url, headers, work }) {
    const { hostname: host, port } = new URL(url);
    const here = { host, port, protocol: "http", telemetry: false } as const;
    const key = headers["Idempotency-Key"] ?? "";
    const order = { amount: 700, currency: "eur", description: work };
    // setting
    const client = new Stripe("sk_test_1", here);
    const charge = await client.charges.create(order, { idempotencyKey: key });
    // end of setting
    return charge.id;
  },
};
