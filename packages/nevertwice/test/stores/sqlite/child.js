/**
 * The other processes of the tests on a SQLite file: `node child.js <act> <build> <file> …`. Each act prints one line of
 * JSON. Plain JavaScript that uses the build, so that any Node can run it.
 */
import { createHash } from "node:crypto";
import { once } from "node:events";

const [act = "", build = "", file = "", ...rest] = process.argv.slice(2);
const { sqliteStore } = await import(`${build}stores/sqlite.js`);
const store = sqliteStore({ file });

/** @param {string} key @param {string} token */
const claimOf = (key, token) => ({
  id: createHash("sha256").update(key).digest("hex"),
  parts: { namespace: "shop", scope: "", operation: "charge", key },
  token,
  leaseMs: 60_000,
  retentionMs: 3_600_000,
  hold: false,
});

/** @param {unknown} said */
const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);

/** @type {Readonly<Record<string, () => Promise<void>>>} */
const ACTS = {
  /** Claims the same keys as another process at the same time, and completes those that it owns. */
  async contend() {
    const [who = "", count = "0", inFlight = "32"] = rest;
    say("ready");
    await once(process.stdin, "data");
    process.stdin.pause();
    /** @type {Record<string, number>} */
    const owned = {};
    let next = 0;
    const contend = async () => {
      for (let i = next++; i < Number(count); i = next++) {
        const { id, token, ...claim } = claimOf(`key ${i}`, `${who} ${i}`);
        const answer = await store.claim({ id, token, ...claim });
        if (answer.status !== "new") continue;
        owned[`key ${i}`] = answer.fence;
        if (!(await store.complete({ id, token, outcome: who, retentionMs: 3_600_000 })))
          throw new Error("lost");
      }
    };
    await Promise.all(Array.from({ length: Number(inFlight) }, contend));
    await store.close();
    say(owned);
  },

  /** Owns a key, completes it on request, and prints when. */
  async own() {
    const { id, token, ...claim } = claimOf("owned", "owner");
    await store.claim({ id, token, ...claim });
    say("ready");
    await once(process.stdin, "data");
    process.stdin.pause();
    await store.complete({ id, token, outcome: "done", retentionMs: 3_600_000 });
    say(Date.now());
    await store.close();
  },

  /** Never closes its store, and has nothing else to do. */
  async leave() {
    say(await store.claim(claimOf("left", "leaver")));
    await store.watch?.({ id: "x", wake() {} });
  },

  /** Replays one key until no message goes to the worker, and exits without closing its store. */
  async replay() {
    const { id, token, ...claim } = claimOf("a", "a");
    await store.claim({ id, token, ...claim });
    await store.complete({ id, token, outcome: "done", retentionMs: 3_600_000 });
    for (let i = 0; i < 2_000; i++) await store.claim({ id, token: "other", ...claim });
    say(await store.claim({ id, token: "other", ...claim }));
    if (rest[0] === "exit") process.exit(7);
  },

  /** Only waits for one answer. No timer keeps the process alive. */
  async await() {
    say((await Promise.all([store.claim(claimOf("a", "a")), store.claim(claimOf("b", "b"))])).length);
  },

  /** Exits in the middle of its claims. */
  async exit() {
    await store.claim(claimOf("first", "first"));
    for (let i = 0; i < 3_000; i++) store.claim(claimOf(`key ${i}`, "exit")).catch(() => {});
    setTimeout(() => process.exit(7), Number(rest[0]));
  },

  claim: claimOnce,
};

async function claimOnce() {
  say(
    await store
      .claim(claimOf("a", "a"))
      .catch((/** @type {{ code: string, message: string }} */ { code, message }) => ({ code, message })),
  );
}

await ACTS[act]?.();
