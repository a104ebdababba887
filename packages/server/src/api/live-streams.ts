/** The open event streams of the live figures. One timer serves all of them and stops with the last. Their number is limited. */
import { PassThrough } from "node:stream";
import { type Caller, visibleNamespace } from "../access.ts";
import { tooManyRequests } from "../problems.ts";
import type { ApiRequest } from "./route.ts";

const TICK_MS = 1_000;
/** A client with more unread bytes than this is disconnected; it can connect again. */
const MAX_UNREAD_BYTES = 1_000_000;
/** Open streams at once: of one access token, and of all together. */
const MAX_PER_TOKEN = 8;
const MAX_STREAMS = 200;
const RETRY_AFTER_SECONDS = 10;

type Watcher = Pick<ApiRequest, "caller" | "isStillWelcome">;

export interface LiveStreams {
  /** Throws `quota-exceeded` if too many streams are open. */
  open(watcher: Watcher): PassThrough;
  close(): void;
}

export function createLiveStreams(snapshot: (caller: Caller) => Promise<unknown>): LiveStreams {
  const watching = new Map<PassThrough, Watcher>();
  let timer: NodeJS.Timeout | undefined;

  async function tick(): Promise<void> {
    const events = new Map<string, Promise<string>>();
    for (const [client, { caller, isStillWelcome }] of watching) {
      // Callers with the same view share a snapshot.
      const view = JSON.stringify([visibleNamespace(caller), caller.namespace]);
      const event = events.get(view) ?? snapshot(caller).then(toServerSentEvent);
      events.set(view, event);
      if (client.writableLength + client.readableLength > MAX_UNREAD_BYTES) client.destroy();
      else if (await isStillWelcome()) client.write(await event);
      else client.end();
    }
  }

  function leave(client: PassThrough): void {
    watching.delete(client);
    if (watching.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  function checkRoom({ caller: { tokenId } }: Watcher): void {
    const own = [...watching.values()].filter(({ caller }) => caller.tokenId === tokenId);
    if (own.length >= MAX_PER_TOKEN)
      throw tooManyRequests(`this access token has ${MAX_PER_TOKEN} streams open.`, RETRY_AFTER_SECONDS);
    if (watching.size >= MAX_STREAMS)
      throw tooManyRequests(`the server has ${MAX_STREAMS} streams open.`, RETRY_AFTER_SECONDS);
  }

  return {
    open(watcher) {
      checkRoom(watcher);
      const client = new PassThrough();
      watching.set(client, watcher);
      client.once("close", () => leave(client));
      timer ??= setInterval(() => void tick(), TICK_MS);
      void snapshot(watcher.caller).then(
        (first) => client.writable && client.write(toServerSentEvent(first)),
      );
      return client;
    },
    close() {
      for (const client of watching.keys()) client.end();
    },
  };
}

function toServerSentEvent(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}
