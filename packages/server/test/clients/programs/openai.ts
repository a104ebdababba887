/** The SDK of OpenAI. It sends no key by itself, and its option `idempotencyKey` sends nothing. */
import OpenAI from "openai";
import type { Client } from "../client.ts";

export const openai: Client = {
  name: "openai",
  packages: ["openai"],
  program: import.meta.url,
  needs: "the key in `headers` (the option `idempotencyKey` sends nothing), and more retries",
  route: "",
  async call({ url, headers, work }) {
    const here = { apiKey: "sk-1", baseURL: `${url}/v1` };
    const order = { model: "m", messages: [{ role: "user" as const, content: work }] };
    // setting
    const client = new OpenAI({ ...here, maxRetries: 6 });
    const completion = await client.chat.completions.create(order, { headers });
    // end of setting
    return completion.id;
  },
};
