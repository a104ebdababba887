/**
 * Records in Upstash Redis over REST, for platforms without TCP: the scripts and records of the Redis store, so both may use one
 * database. Every call sends its own request and shares nothing with other calls, as platforms such as workerd demand of the
 * requests that they serve. Waiters poll.
 */
import { checkOptions, isText } from "../core/option-checks.ts";
import type { Store } from "../core/store.ts";
import { readServerFacts } from "./redis/durability.ts";
import { translateErrors } from "./redis/errors.ts";
import { createScriptStore, DEFAULT_PREFIX } from "./redis/script-store.ts";
import { CLAIM_STEP_MARKED } from "./redis/steps.ts";
import { adaptUpstash, type UpstashClient } from "./upstash/client.ts";
import { judgeUpstash } from "./upstash/durability.ts";

export type { UpstashClient } from "./upstash/client.ts";

/** Options of `upstashStore`. */
export interface UpstashStoreOptions {
  /** `Redis` of `@upstash/redis`, created with `automaticDeserialization: false`. */
  readonly client: UpstashClient;
  /**
   * The prefix of every key; default `nevertwice:`.
   * @default "nevertwice:"
   */
  readonly prefix?: string | undefined;
}

/** A request to Upstash has room for 10 MB, and an outcome may take twice its size in the JSON of the request. */
const MAX_OUTCOME_BYTES = 4_000_000;

/**
 * Keeps records in Upstash Redis, over HTTP. Each step is one script.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { Redis } from "@upstash/redis";
 * import { createGuard } from "nevertwice";
 * import { upstashStore } from "nevertwice/stores/upstash";
 *
 * const client = new Redis({
 *   url: process.env.UPSTASH_REDIS_REST_URL ?? "",
 *   token: process.env.UPSTASH_REDIS_REST_TOKEN ?? "",
 *   automaticDeserialization: false,
 * });
 * export const guard = createGuard({ store: upstashStore({ client }) });
 * ```
 */
export function upstashStore(options: UpstashStoreOptions): Store {
  checkOptions(options, { client: adaptUpstash, prefix: isText });
  const { client, prefix = DEFAULT_PREFIX } = options;
  const adapter = adaptUpstash("client", client);
  const store = createScriptStore({
    adapter,
    evaluate: adapter.evaluate,
    // The client decodes texts from base64, and drops a byte order mark at their beginning.
    claimStep: CLAIM_STEP_MARKED,
    isReplicated: false,
    isGrouped: false,
    losses: () => 0,
    prefix,
    // Each request takes long and is paid for, and a call waits for no other one.
    pages: { turns: (call) => call(), keysAtOnce: 1_000, longestMs: Number.POSITIVE_INFINITY },
  });
  return {
    ...store,
    maxOutcomeBytes: MAX_OUTCOME_BYTES,
    async settings() {
      return judgeUpstash(await translateErrors(adapter.masters().then(readServerFacts)));
    },
  };
}
