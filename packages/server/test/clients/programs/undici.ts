/** The RetryAgent of undici, which by default repeats no POST and no 409. */
import { Agent, RetryAgent, request } from "undici";
import { type Client, Refused } from "../client.ts";

export const undici: Client = {
  name: "undici RetryAgent",
  packages: ["undici"],
  program: import.meta.url,
  needs: "retries of POST and of 409",
  route: "",
  async call({ url, headers, work }) {
    const order = { work };
    // setting
    const dispatcher = new RetryAgent(new Agent(), {
      maxRetries: 5,
      methods: ["POST"],
      statusCodes: [408, 409, 429, 502, 503, 504],
    });
    const response = await request(`${url}/orders`, {
      dispatcher,
      method: "POST",
      headers: { ...headers, "Content-Type": "application/json" },
      body: JSON.stringify(order),
    });
    // end of setting
    const receipt = (await response.body.json()) as { readonly id: string };
    await dispatcher.close();
    if (response.statusCode >= 300) throw new Refused(response.statusCode);
    return receipt.id;
  },
};
