/** Shared by the Upstash tests: the REST door in front of the shared Redis, and clients of it. */
import { Redis, type RedisConfigNodejs } from "@upstash/redis";
import { afterAll, inject, type TestContext } from "vitest";
import { sharedUrl, startFor } from "../../services/services.ts";
import { startUpstashDoor, type UpstashDoor } from "../../services/upstash-door.ts";

type ClientOptions = Partial<RedisConfigNodejs>;

/** A client that does not repeat requests itself, so that each answer shows what happened. */
export function upstashClient(door: Pick<UpstashDoor, "url" | "token">, options: ClientOptions = {}): Redis {
  return new Redis({
    url: door.url,
    token: door.token,
    automaticDeserialization: false,
    enableTelemetry: false,
    retry: { retries: 0 },
    ...options,
  });
}

/**
 * A database of the shared Redis for these tests alone, unless its URL names one. A list reads every key of its database, and the
 * other tests leave very many.
 */
function ownDatabase(redisUrl: string): string {
  const url = new URL(redisUrl);
  if (url.pathname.length <= 1) url.pathname = "/1";
  return url.href;
}

/** What the door leads to. */
export function redisBehind(context: TestContext): string {
  return ownDatabase(sharedUrl(context, "redis"));
}

/** A door for one test. */
export function doorFor(context: TestContext): Promise<UpstashDoor> {
  const url = redisBehind(context);
  return startFor(context, () => startUpstashDoor(url));
}

/** A door for one test, with no Redis behind it: for answers that the test gives. */
export function emptyDoor(context: TestContext): Promise<UpstashDoor> {
  return startFor(context, () => startUpstashDoor("redis://127.0.0.1:1"));
}

/** One door for all tests of a file, opened at the first call. */
export function sharedDoor(): () => Promise<UpstashDoor> {
  let door: Promise<UpstashDoor> | undefined;
  afterAll(async () => (await door)?.stop());
  return () => {
    door ??= startUpstashDoor(ownDatabase(inject("services").redis as string));
    return door;
  };
}
