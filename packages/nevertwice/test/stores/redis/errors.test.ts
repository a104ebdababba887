/** Tests that what Redis answers with an error is `unavailable` only where asking again can help; nobody goes on over the rest. */
import { describe, expect, test, vi } from "vitest";
import { toStoreError } from "../../../src/stores/redis/errors.ts";
import { redisStore, redisWindow } from "../../../src/stores/redis.ts";
import { startRedis } from "../../services/redis.ts";
import { sharedUrl, startFor } from "../../services/services.ts";
import { ioredis, nodeRedis } from "./clients.ts";
import { claimOf, keyOf } from "./scene.ts";

const UNAVAILABLE = [
  "LOADING Redis is loading the dataset in memory",
  "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
  "TRYAGAIN Multiple keys request during rehashing of slot",
  "CLUSTERDOWN The cluster is down",
  "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
  "READONLY You can't write against a read only replica.",
  "NOREPLICAS Not enough good replicas to write.",
  "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
  "ERR max number of clients reached",
  "ERR Error running script: Script killed by user with SCRIPT KILL",
];
const FULL = [
  "OOM command not allowed when used memory > 'maxmemory'.",
  "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
];
const UNSAFE = [
  "WRONGTYPE Operation against a key holding the wrong kind of value",
  "MOVED 1 127.0.0.1:7001",
  "ASK 1 127.0.0.1:7001",
  "CROSSSLOT Keys in request don't hash to the same slot",
  "NOAUTH Authentication required.",
  "WRONGPASS invalid username-password pair or user is disabled.",
  "NOPERM this user has no permissions to run the 'evalsha' command",
  "DENIED Redis is running in protected mode because protected mode is enabled",
  "NOSCRIPT No matching script. Please use EVAL.",
  "EXECABORT Transaction discarded because of previous errors.",
  "NOPROTO unsupported protocol version",
  "ERR unknown command 'EVALSHA', with args beginning with: ",
  "ERR value is not an integer or out of range",
  "ERR user_script:7: attempt to perform arithmetic on a nil value script: 1, on @user_script:7.",
  "SOMETHINGNEW that no version says yet",
  "in words of no kind",
];

const CLIENTS = [
  ["ioredis", async (url: string) => ioredis(url)],
  ["node-redis", (url: string) => nodeRedis(url)],
] as const;

describe.for(CLIENTS)("with %s", ([, connect]) => {
  test.for([
    ["unavailable", UNAVAILABLE],
    ["store-full", FULL],
    ["store-unsafe", UNSAFE],
  ] as const)("what Redis answers is %s", async ([code, replies], context) => {
    const client = await connect(sharedUrl(context, "redis"));
    const script = "return redis.error_reply(ARGV[1])";
    for (const reply of replies) {
      const asked =
        "evalsha" in client
          ? client.call("EVAL", script, "0", reply)
          : client.sendCommand(["EVAL", script, "0", reply]);
      const error = await asked.then(
        () => new Error("no error"),
        (thrown: unknown) => thrown,
      );
      expect({ reply, ...(toStoreError(error) as object) }).toMatchObject({ reply, code });
    }
  });

  test("a long script of another client is unavailable, and so is a Redis without its replicas", async (context) => {
    const { url } = await startFor(context, () => startRedis({ settings: { "busy-reply-threshold": 50 } }));
    const store = redisStore({ client: await connect(url) });
    await store.claim(claimOf("t0"));
    const [looping, admin] = [ioredis(url, { maxRetriesPerRequest: 0 }), ioredis(url)];
    // A client that connects to a busy Redis does not become ready, and fails for that reason.
    await Promise.all([looping.ping(), admin.ping()]);
    const looped = looping.eval("while true do end", 0).catch(() => {});
    await vi.waitFor(() => expect(admin.ping()).rejects.toThrow("BUSY"), 10_000);
    await expect(store.claim(claimOf("t1"))).rejects.toMatchObject({ code: "unavailable" });
    await admin.script("KILL");
    await looped;
    await admin.config("SET", "min-replicas-to-write", "1");
    await expect(store.claim(claimOf("t2"))).rejects.toMatchObject({ code: "unavailable" });
  });

  test("a window that another program has overwritten is store-unsafe", async (context) => {
    const url = sharedUrl(context, "redis");
    const window = redisWindow({ client: await connect(url) });
    const admin = ioredis(url);
    const change = { value: 1, token: "t", windowMs: 1_000, similarity: 0, maxChanges: 1 };
    for (const write of [
      (key: string) => admin.set(key, "text"),
      (key: string) => admin.zadd(key, Date.now() + 100_000, "no number"),
    ]) {
      const { id: parameter } = claimOf("t");
      await write(keyOf(parameter, "nevertwice:flapping:"));
      await expect(window.record({ ...change, parameter })).rejects.toMatchObject({ code: "store-unsafe" });
    }
  });
});

test("an error that neither Redis nor the connection caused is returned unchanged", () => {
  for (const error of [new TypeError("a bug"), new Error("lower case"), "text"])
    expect(toStoreError(error)).toBe(error);
});
