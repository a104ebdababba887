/** superagent, which repeats every method, at once and without a pause. So duplicates have to wait for their answer. */
import superagent from "superagent";
import type { Client } from "../client.ts";

export const superagentClient: Client = {
  name: "superagent",
  packages: ["superagent"],
  program: import.meta.url,
  needs: "retries. It makes no pause between them, so the duplicate has to wait",
  route: '`wait = "30s"`, or `onPending: "wait"` and `waitMs: 30_000`',
  async call({ url, headers, work }) {
    const order = { work };
    const path = `${url}/waiting/orders`;
    // setting
    const { body } = await superagent
      .post(path)
      .set(headers)
      .retry(3, (_error, response) => (response?.headers["x-should-retry"] === "false" ? false : undefined))
      .send(order);
    // end of setting
    return body.id;
  },
};
