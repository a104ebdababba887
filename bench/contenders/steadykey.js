/** steadykey's execute-once runner on its own memory store. */
import { IdempotencyManager, InMemoryIdempotencyStore } from "steadykey";

export function create({ hasFingerprint }) {
  const options = { defaultTtlSeconds: 86_400 };
  // The nearest it has to no fingerprint, and faster than any real one: the canonical text of null as it is.
  if (!hasFingerprint) options.hashFn = (canonical) => canonical;
  const manager = new IdempotencyManager(new InMemoryIdempotencyStore(), options);
  return async (key, body, work) => {
    const payload = hasFingerprint ? body : null;
    return (await manager.execute(payload, work, { idempotencyKey: key })).value;
  };
}
