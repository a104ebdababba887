/** Sends the ids of settled records to the processes that listen, and reads them there. */
import { utf8Bytes } from "../../core/bytes.ts";

/** How long one notification may take. A dead connection delays the next one by no more than this. */
export const NOTIFY_MS = 1_000;

export interface Notifier {
  notify(ids: readonly string[]): void;
  /** Resolves when every notification was sent, or failed. */
  done(): Promise<void>;
}

/**
 * Notifies after the commit, with the ids that arrived together in one message, and no caller waits for it. In the
 * committing transaction, NOTIFY would make all commits of the database queue for one lock.
 */
export function createNotifier(send: (payload: string) => Promise<void>): Notifier {
  const pending = new Set<string>();
  let sending: Promise<void> | undefined;

  async function sendAll(): Promise<void> {
    while (pending.size > 0) {
      const payloads = toPayloads(pending);
      pending.clear();
      for (const payload of payloads) await settledWithin(NOTIFY_MS, send(payload));
    }
    sending = undefined;
  }

  return {
    notify(ids) {
      for (const id of ids) pending.add(id);
      if (pending.size > 0) sending ??= sendAll();
    },
    async done() {
      await sending;
    },
  };
}

async function settledWithin(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
    timer.unref?.();
  });
  await Promise.race([work.catch(() => {}), late]);
  clearTimeout(timer);
}

const MAX_PAYLOAD_BYTES = 7_900;

/** The part of an id that a payload contains. A waiter may be woken for another id; a payload has room for many. */
export function shortId(id: string): string {
  return id.slice(0, 16);
}

/** The ids as JSON, since an id may contain any character, in as few payloads as have room for them. */
export function toPayloads(ids: Iterable<string>): readonly string[] {
  const payloads: string[] = [];
  let texts: string[] = [];
  let bytes = 0;
  for (const id of ids) {
    const text = JSON.stringify(shortId(id));
    bytes += utf8Bytes(text) + 1;
    if (bytes > MAX_PAYLOAD_BYTES) {
      payloads.push(`[${texts}]`);
      texts = [];
      bytes = utf8Bytes(text) + 1;
    }
    texts.push(text);
  }
  if (texts.length > 0) payloads.push(`[${texts}]`);
  return payloads;
}

/** Every session may notify the channel, so a payload that the store did not write has no ids. */
export function parsePayload(payload: string): readonly string[] {
  try {
    const ids: unknown = JSON.parse(payload);
    return Array.isArray(ids) ? ids : [];
  } catch {
    return [];
  }
}
