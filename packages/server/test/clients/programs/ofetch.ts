/** ofetch, which by default repeats no POST, and repeats without a pause. */
import { ofetch } from "ofetch";
import type { Client } from "../client.ts";

export const ofetchClient: Client = {
  name: "ofetch",
  packages: ["ofetch"],
  program: import.meta.url,
  needs: "retries of POST, and a pause between them",
  route: "",
  async call({ url, headers, work }) {
    const order = { work };
    // setting
    const client = ofetch.create({
      retry: 6,
      retryStatusCodes: [408, 409, 429, 500, 502, 503, 504],
      onResponseError({ options, response }) {
        if (response.headers.get("X-Should-Retry") === "false") options.retry = false;
      },
      retryDelay: ({ response }) => 1_000 * Number(response?.headers.get("Retry-After") ?? 1),
    });
    const receipt = await client(`${url}/orders`, { method: "POST", body: order, headers });
    // end of setting
    return receipt.id;
  },
};
