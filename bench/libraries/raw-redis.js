/** Our Redis store's two scripts, sent by hand. */
import { Redis } from "ioredis";
import { COMPLETE, QUICK_CLAIM } from "../../packages/nevertwice/build/stores/redis-lua.js";
import { LEASE_MS, RETENTION_MS, rawLoop } from "./raw.js";

export async function create({ target, hasFingerprint }) {
  const client = new Redis(target.url);
  for (const { text } of [QUICK_CLAIM, COMPLETE]) await client.script("LOAD", text);
  const keyOf = (id) => `nevertwice:{${id}}`;

  async function claim({ id, parts, fingerprint, token }) {
    const { namespace, scope, operation, key } = parts;
    const kept = JSON.stringify([namespace, scope, operation, key]);
    const lines = `${token}\n${fingerprint ?? ""}\n${kept}\n`;
    const args = [QUICK_CLAIM.sha, 1, keyOf(id), LEASE_MS, RETENTION_MS, lines];
    const [, , answer] = await client.evalsha(...args);
    if (answer === 1) return { status: "new" };
    const [found] = answer;
    if (found === 0) return { status: "pending" };
    const [words, , theirs, , ...outcome] = found.split("\n");
    if (fingerprint !== undefined && theirs !== fingerprint) return { status: "conflict" };
    if (!words.startsWith("3c")) return { status: "pending" };
    return { status: "completed", outcome: outcome.join("\n") };
  }

  async function complete({ id, token, outcome }) {
    const args = [COMPLETE.sha, 1, keyOf(id), `${RETENTION_MS} ${token}\n`, outcome];
    const [isKept] = await client.evalsha(...args);
    return isKept === 1;
  }

  return { run: rawLoop({ claim, complete, hasFingerprint }), close: () => client.quit() };
}
