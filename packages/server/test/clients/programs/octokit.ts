/** Octokit with its retry plugin, which repeats every method three times, after 1, 4 and 9 seconds. */
import { Octokit } from "@octokit/core";
import { retry } from "@octokit/plugin-retry";
import type { Client } from "../client.ts";

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

export const octokit: Client = {
  name: "@octokit/plugin-retry",
  packages: ["@octokit/core", "@octokit/plugin-retry"],
  program: import.meta.url,
  needs: "the key: the plugin retries every method after 1, 4 and 9 seconds",
  route: "",
  async call({ url, headers, work }) {
    const here = { baseUrl: url, log: SILENT };
    // setting
    const Client = Octokit.plugin(retry);
    const client = new Client(here);
    const { data } = await client.request("POST /orders", { work, headers });
    // end of setting
    return data.id;
  },
};
