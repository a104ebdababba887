/** axios with axios-retry, which by default repeats no POST that was answered, and no 409. */
import axios from "axios";
import axiosRetry, { exponentialDelay, isNetworkError } from "axios-retry";
import type { Client } from "../client.ts";

export const axiosWithRetry: Client = {
  name: "axios + axios-retry",
  packages: ["axios", "axios-retry"],
  program: import.meta.url,
  needs: "retries of POST and of 409",
  route: "",
  async call({ url, headers, work }) {
    const order = { work };
    // setting
    const client = axios.create();
    axiosRetry(client, {
      retries: 6,
      retryDelay: exponentialDelay,
      retryCondition: (error) =>
        isNetworkError(error) ||
        ([408, 409, 429, 502, 503, 504].includes(error.response?.status ?? 0) &&
          error.response?.headers["x-should-retry"] !== "false"),
    });
    const { data } = await client.post(`${url}/orders`, order, { headers });
    // end of setting
    return data.id;
  },
};
