/** Our Redis store's two scripts, sent by hand. */
import { Redis } from "ioredis";
import { CLAIM, COMPLETE } from "../../packages/nevertwice/dist/stores/redis-lua.js";
import { LEASE_MS, RETENTION_MS, rawLoop } from "./raw.js";

export async function create({ target, hasFingerprint }) {
  const client = new Redis(target.url);
  for (const { text } of [CLAIM, COMPLETE]) await client.script("LOAD", text);
  const keyOf = (id) => `nevertwice:{${id}}`;

  async function claim({ id, parts, fingerprint, token }) {
    const { namespace, scope, operation, key } = parts;
    const kept = JSON.stringify([namespace, scope, operation, key]);
    const args = [token, LEASE_MS, RETENTION_MS, 0, "", kept, fingerprint ?? ""];
    const [[status, outcome]] = await client.evalsha(CLAIM.sha, 1, keyOf(id), ...args);
    return { status, outcome };
  }

  async function complete({ id, token, outcome }) {
    const [isKept] = await client.evalsha(COMPLETE.sha, 1, keyOf(id), token, RETENTION_MS, outcome);
    return isKept === 1;
  }

  return { run: rawLoop({ claim, complete, hasFingerprint }), close: () => client.quit() };
}
