/** The clients of the table, in its order. */
import type { Client } from "./client.ts";
import { anthropic } from "./programs/anthropic.ts";
import { axiosWithRetry } from "./programs/axios-retry.ts";
import { ours } from "./programs/create-fetch.ts";
import { curl } from "./programs/curl.ts";
import { gotClient } from "./programs/got.ts";
import { kyClient } from "./programs/ky.ts";
import { octokit } from "./programs/octokit.ts";
import { ofetchClient } from "./programs/ofetch.ts";
import { openai } from "./programs/openai.ts";
import { stripe } from "./programs/stripe.ts";
import { superagentClient } from "./programs/superagent.ts";
import { undici } from "./programs/undici.ts";
import type { DoorName } from "./stage.ts";

/** The doors at which a share of the clients runs: their layer is the same, and only the sending of its answers differs. */
const SHARED: readonly DoorName[] = ["Hono", "Nest", "fetch"];
const SHARE: readonly Client[] = [stripe, openai, undici, superagentClient, curl, ours];

export function clientsAt(door: DoorName): readonly Client[] {
  return SHARED.includes(door) ? SHARE : CLIENTS;
}

export const CLIENTS: readonly Client[] = [
  stripe,
  openai,
  anthropic,
  axiosWithRetry,
  gotClient,
  kyClient,
  undici,
  ofetchClient,
  superagentClient,
  octokit,
  curl,
  ours,
];
