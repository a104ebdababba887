/** The SDK of Anthropic. It sends no key by itself. */
import Anthropic from "@anthropic-ai/sdk";
import type { Client } from "../client.ts";

export const anthropic: Client = {
  name: "@anthropic-ai/sdk",
  packages: ["@anthropic-ai/sdk"],
  program: import.meta.url,
  needs: "the key in `headers`, and more retries",
  route: "",
  async call({ url, headers, work }) {
    const here = { apiKey: "sk-1", baseURL: url };
    const order = { model: "m", max_tokens: 1, messages: [{ role: "user" as const, content: work }] };
    // setting
    const client = new Anthropic({ ...here, maxRetries: 6 });
    const message = await client.messages.create(order, { headers });
    // end of setting
    return message.id;
  },
};
