/** got, which by default repeats no POST, and no 409. */
import got from "got";
import type { Client } from "../client.ts";

export const gotClient: Client = {
  name: "got",
  packages: ["got"],
  program: import.meta.url,
  needs: "retries of POST and of 409",
  route: "",
  async call({ url, headers, work }) {
    const order = { work };
    // setting
    const client = got.extend({
      retry: {
        limit: 6,
        methods: ["POST"],
        statusCodes: [408, 409, 429, 502, 503, 504],
        calculateDelay: ({ error, computedValue }) =>
          error.response?.headers["x-should-retry"] === "false" ? 0 : computedValue,
      },
    });
    const receipt = await client.post(`${url}/orders`, { json: order, headers }).json();
    // end of setting
    return (receipt as { readonly id: string }).id;
  },
};
