/** The streams of those who watch: one clock for all of them, none while nobody watches, and no more than so many. */
import { PassThrough } from "node:stream";
import { figuresFor } from "../access.ts";
import { tooManyRequests } from "../problems.ts";
import type { ApiRequest } from "./route.ts";

const TICK_MS = 1_000;
/** A client that reads this much too slowly is cut off: it may come back. */
const MOST_UNREAD_BYTES = 1_000_000;
/** At once: of one access token, and of all together. */
const MOST_OF_ONE = 8;
const MOST_OF_ALL = 200;
const RETRY_AFTER_SECONDS = 10;

type Watcher = Pick<ApiRequest, "caller" | "isStillWelcome">;

export interface Streams {
  /** Throws `quota-exceeded` for one stream too many. */
  open(watcher: Watcher): PassThrough;
  close(): void;
}

export function createStreams(snapshot: (namespace: string | undefined) => Promise<unknown>): Streams {
  const watching = new Map<PassThrough, Watcher>();
  let timer: NodeJS.Timeout | undefined;

  async function tick(): Promise<void> {
    const pictures = new Map<string | undefined, Promise<string>>();
    for (const [client, { caller, isStillWelcome }] of watching) {
      const namespace = figuresFor(caller);
      const picture = pictures.get(namespace) ?? snapshot(namespace).then(eventOf);
      pictures.set(namespace, picture);
      if (client.writableLength + client.readableLength > MOST_UNREAD_BYTES) client.destroy();
      else if (await isStillWelcome()) client.write(await picture);
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
    if (own.length >= MOST_OF_ONE)
      throw tooManyRequests(`this access token has ${MOST_OF_ONE} streams open.`, RETRY_AFTER_SECONDS);
    if (watching.size >= MOST_OF_ALL)
      throw tooManyRequests(`the server has ${MOST_OF_ALL} streams open.`, RETRY_AFTER_SECONDS);
  }

  return {
    open(watcher) {
      checkRoom(watcher);
      const client = new PassThrough();
      watching.set(client, watcher);
      client.once("close", () => leave(client));
      timer ??= setInterval(() => void tick(), TICK_MS);
      void snapshot(figuresFor(watcher.caller)).then(
        (picture) => client.writable && client.write(eventOf(picture)),
      );
      return client;
    },
    close() {
      for (const client of watching.keys()) client.end();
    },
  };
}

function eventOf(picture: unknown): string {
  return `data: ${JSON.stringify(picture)}\n\n`;
}
