/** The server's figures, pushed once a second; and whether they still come. */
import { useEffect, useState } from "preact/hooks";
import { endSession, get, loadSession } from "./server.ts";
import type { Snapshot } from "./shapes.ts";

export interface Feed {
  readonly snapshot: Snapshot | undefined;
  readonly isConnected: boolean;
}

const RETRY_MS = 2_000;
/** A server that takes longer than this to answer is shown as gone. */
const ANSWER_MS = 1_000;
/** So long without a word, and the line is dead, whatever the browser thinks. */
const SILENT_MS = 6_000;

let feed: Feed = { snapshot: undefined, isConnected: true };
const listeners = new Set<(feed: Feed) => void>();

function tell(next: Feed): void {
  feed = next;
  for (const listener of listeners) listener(next);
}

/** Opens the one line of this page; the answer closes it. */
export function openFeed(): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;

  function lost(): void {
    source?.close();
    clearTimeout(timer);
    if (isClosed) return;
    const disconnect = () => {
      if (!isClosed) tell({ ...feed, isConnected: false });
    };
    timer = setTimeout(disconnect, ANSWER_MS);
    askOnce()
      .catch(disconnect)
      .then(() => {
        clearTimeout(timer);
        if (!isClosed) timer = setTimeout(connect, RETRY_MS);
      });
  }

  /** The server has only so many streams; a page without one still gets a picture with every try. */
  async function askOnce(): Promise<void> {
    const { caller } = await loadSession();
    // Without a session the page shows the way in, which closes this line.
    if (caller === null) return endSession();
    const snapshot = await get<Snapshot>("/v1/live");
    if (!isClosed) tell({ snapshot, isConnected: true });
  }

  function heard(message: MessageEvent<string>): void {
    clearTimeout(timer);
    timer = setTimeout(lost, SILENT_MS);
    tell({ snapshot: JSON.parse(message.data) as Snapshot, isConnected: true });
  }

  function connect(): void {
    if (isClosed) return;
    source = new EventSource("/v1/live/stream");
    source.onmessage = heard;
    source.onerror = lost;
  }

  tell({ snapshot: undefined, isConnected: true });
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
