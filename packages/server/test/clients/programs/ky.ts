/** ky, which by default repeats no POST and no 409, and gives up after ten seconds, pauses included. */
import ky, { isHTTPError } from "ky";
import type { Client } from "../client.ts";

export const kyClient: Client = {
  name: "ky",
  packages: ["ky"],
  program: import.meta.url,
  needs: "retries of POST and of 409, and more than its 10 seconds for a call with its pauses",
  route: "",
  async call({ url, headers, work }) {
    const order = { work };
    // setting
    const client = ky.create({
      timeout: 120_000,
      retry: {
        limit: 6,
        methods: ["post"],
        statusCodes: [408, 409, 429, 502, 503, 504],
        afterStatusCodes: [409, 429, 503],
        shouldRetry: ({ error }) =>
          isHTTPError(error) && error.response.headers.get("X-Should-Retry") === "false" ? false : undefined,
      },
    });
    const receipt = await client.post(`${url}/orders`, { json: order, headers }).json();
    // end of setting
    return (receipt as { readonly id: string }).id;
  },
};
