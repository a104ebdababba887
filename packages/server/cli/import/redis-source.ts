/** Reads the string keys of a Redis that begin with a prefix, with SCAN. Redis may return a key twice; that does no harm. */
import { UsageError } from "../command.ts";
import { PAGE, type Source, type SourceEntry } from "./source.ts";

export async function redisSource(url: string, pattern: string): Promise<Source> {
  if (!URL.canParse(url)) throw new UsageError("the URL of the Redis server is malformed.");
  const { Redis } = await import("ioredis");
  // The command ends if the server does not answer, instead of trying for ever.
  const client = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 2, connectTimeout: 5_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    const total = await client.dbsize();
    let position = 0;
    return {
      total,
      async page(after) {
        const [cursor, keys] = await client.scan(
          after ?? "0",
          "MATCH",
          pattern,
          "COUNT",
          PAGE,
          "TYPE",
          "string",
        );
        // SCAN looks at about as many keys as it was asked to, and returns those that match.
        position = Math.min(position + PAGE, total);
        return { entries: await readKeys(client, keys), next: cursor === "0" ? undefined : cursor, position };
      },
      close: async () => client.disconnect(),
    };
  } catch (error) {
    client.disconnect();
    throw error;
  }
}

type ScannedRedis = import("ioredis").Redis;

async function readKeys(client: ScannedRedis, keys: readonly string[]): Promise<readonly SourceEntry[]> {
  if (keys.length === 0) return [];
  const calls = client.pipeline();
  for (const key of keys) calls.get(key).pttl(key);
  const answers = (await calls.exec()) ?? [];
  return keys.flatMap((key, index) => {
    const [getError, value] = answers[index * 2] ?? [];
    const [leftError, left] = answers[index * 2 + 1] ?? [];
    const error = getError ?? leftError;
    if (error) throw error;
    // The key expired after SCAN returned it.
    if (value === null || left === -2) return [];
    return [{ key, value, leftMs: left === -1 ? null : (left as number) }];
  });
}

/** A pattern for keys that begin with this text. */
export function startingWith(text: string): string {
  return `${text.replace(/[*?[\]\\]/g, "\\$&")}*`;
}
