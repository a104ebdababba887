/** The live figures that the server pushes once a second, and whether the connection still works. */
import { useEffect, useState } from "preact/hooks";
import type { SnapshotJson } from "../src/api/api-json.ts";
import { endSession, get, loadSession } from "./server.ts";

export interface Feed {
  readonly snapshot: SnapshotJson | undefined;
  readonly isConnected: boolean;
}

const RETRY_MS = 2_000;
/** A server that takes longer than this to answer is shown as disconnected. */
const ANSWER_MS = 1_000;
/** After this long without a message the connection counts as lost, even if the browser still shows it as open. */
const SILENT_MS = 6_000;

let feed: Feed = { snapshot: undefined, isConnected: true };
const listeners = new Set<(feed: Feed) => void>();

function publish(next: Feed): void {
  feed = next;
  for (const listener of listeners) listener(next);
}

/** Opens the event stream of this page. Returns a function that closes it. */
export function openFeed(): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;

  function onLost(): void {
    source?.close();
    clearTimeout(timer);
    if (isClosed) return;
    const disconnect = () => {
      if (!isClosed) publish({ ...feed, isConnected: false });
    };
    timer = setTimeout(disconnect, ANSWER_MS);
    void loadOnce()
      .catch(disconnect)
      .then(() => {
        clearTimeout(timer);
        if (!isClosed) timer = setTimeout(connect, RETRY_MS);
      });
  }

  /** The server limits its streams. A page that gets none still loads one snapshot with every try. */
  async function loadOnce(): Promise<void> {
    const { caller } = await loadSession();
    // Without a session the page shows the sign-in form, which closes this stream.
    if (caller === null) return endSession();
    const snapshot = await get<SnapshotJson>("/v1/live");
    if (!isClosed) publish({ snapshot, isConnected: true });
  }

  function onMessage(message: MessageEvent<string>): void {
    clearTimeout(timer);
    timer = setTimeout(onLost, SILENT_MS);
    publish({ snapshot: JSON.parse(message.data) as SnapshotJson, isConnected: true });
  }

  function connect(): void {
    if (isClosed) return;
    source = new EventSource("/v1/live/stream");
    source.onmessage = onMessage;
    source.onerror = onLost;
  }

  publish({ snapshot: undefined, isConnected: true });
  connect();
  return () => {
    isClosed = true;
    source?.close();
    clearTimeout(timer);
  };
}

export function useFeed(): Feed {
  const [seen, setSeen] = useState(feed);
  useEffect(() => {
    listeners.add(setSeen);
    return () => {
      listeners.delete(setSeen);
    };
  }, []);
  return seen;
}
