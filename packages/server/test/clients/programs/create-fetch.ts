/** The `fetch` of `nevertwice/client`, which makes a key for every POST and keeps it over its retries. */
import { createFetch } from "nevertwice/client";
import { type Client, Refused } from "../client.ts";

export const ours: Client = {
  name: "nevertwice/client",
  packages: ["nevertwice"],
  program: import.meta.url,
  needs: "nothing: it makes the key",
  route: "",
  async call({ url, headers, work }) {
    const order = { work };
    const key = headers["Idempotency-Key"] ?? false;
    // setting
    const fetch = createFetch();
    const response = await fetch(`${url}/orders`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(order),
      idempotencyKey: key,
    });
    // end of setting
    if (!response.ok) throw new Refused(response.status);
    const receipt = (await response.json()) as { readonly id: string };
    return receipt.id;
  },
};
