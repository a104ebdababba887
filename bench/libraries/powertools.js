/** The idempotency of Powertools for AWS Lambda on its cache layer, outside of Lambda. */
import { setTimeout as sleep } from "node:timers/promises";
import {
  IdempotencyAlreadyInProgressError,
  IdempotencyConfig,
  makeIdempotent,
} from "@aws-lambda-powertools/idempotency";
import { CachePersistenceLayer } from "@aws-lambda-powertools/idempotency/cache";
import { createClient } from "redis";

/** How often its callers retry. The other peers do this themselves. */
const POLL_MS = 100;

export async function create({ target }) {
  const client = await createClient({ url: target.url }).connect();
  const config = new IdempotencyConfig({ expiresAfterSeconds: 86_400 });
  // Without a deadline it treats running work as abandoned, and lets a second caller run it.
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 30_000 });
  const once = makeIdempotent((_key, work) => work(), {
    persistenceStore: new CachePersistenceLayer({ client }),
    config,
    keyPrefix: "charge",
    dataIndexArgument: 0,
  });
  return {
    async run(key, _body, work) {
      for (;;) {
        try {
          return await once(key, work);
        } catch (error) {
          if (!(error instanceof IdempotencyAlreadyInProgressError)) throw error;
          await sleep(POLL_MS);
        }
      }
    },
    close: () => client.close(),
  };
}
