/**
 * Wakes waiters when a record changes. Each record that is waited for has one stream of etcd's watch. A stream can fall silent
 * without ending, so once a second one read of all these records finds the changes that no stream reported.
 */
import { NevertwiceError } from "../../core/errors.ts";
import type { Store } from "../../core/store.ts";
import { createWatchers } from "../watchers.ts";
import type { EtcdGateway } from "./gateway.ts";
import { fromKeyValue, type Keyspace } from "./records.ts";
import * as tx from "./transactions.ts";

/** Beyond this, waiters poll: each stream is a connection, and one transaction reads all records that are watched. */
const MAX_STREAMS = 100;
const LOOK_EVERY_MS = 1_000;

export interface EtcdWatch {
  watch: NonNullable<Store["watch"]>;
  close(): void;
}

/** The stream of one record. */
interface Stream {
  readonly controller: AbortController;
  /** Resolves when changes from now on are noticed. */
  readonly isActive: Promise<void>;
  /** The last revision of the store at which the record is known not to have ended; undefined until the stream is active. */
  knownAt: number | undefined;
}

interface WatchAnswer {
  readonly result?: {
    readonly header?: { readonly revision?: string };
    readonly created?: boolean;
    readonly canceled?: boolean;
    readonly events?: readonly { readonly type?: string; readonly kv?: tx.RawKeyValue }[];
  };
}

export function createEtcdWatch(gateway: EtcdGateway, keys: Keyspace): EtcdWatch {
  const streams = new Map<string, Stream>();
  const watchers = createWatchers({ onFirst: open, onLast: end });
  let looking: ReturnType<typeof setTimeout> | undefined;

  function open(id: string): void {
    const controller = new AbortController();
    let activate: () => void = () => {};
    const isActive = new Promise<void>((resolve) => {
      activate = resolve;
    });
    const stream: Stream = { controller, isActive, knownAt: undefined };
    streams.set(id, stream);
    void follow(id, stream, activate).finally(activate);
    schedule();
  }

  function end(id: string): void {
    streams.get(id)?.controller.abort();
    streams.delete(id);
  }

  /** Wakes the waiters at each change. A stream that ends wakes them too: they look at the record, and subscribe anew. */
  async function follow(id: string, stream: Stream, activate: () => void): Promise<void> {
    const { signal } = stream.controller;
    try {
      const request = { create_request: { key: tx.encode(keys.record(id)) } };
      for await (const line of lines(await gateway.stream("watch", request, signal))) {
        const { result } = JSON.parse(line) as WatchAnswer;
        // Such as for a revision that was compacted.
        if (result === undefined || result.canceled === true) break;
        stream.knownAt = Number(result.header?.revision);
        if (result.created === true) activate();
        if (result.events?.some((event) => !isStillPending(id, event))) watchers.wake([id]);
      }
    } catch {
      // No member could be reached, or the connection was lost.
    }
    if (signal.aborted) return;
    // Without a stream the waiters depend on the look of every second, which compares with this one.
    if (stream.knownAt === undefined) await look([[id, stream]]).catch(() => {});
    else watchers.wake([id]);
  }

  function schedule(): void {
    if (looking !== undefined || streams.size === 0) return;
    looking = setTimeout(async () => {
      await look([...streams]).catch(() => {});
      looking = undefined;
      schedule();
    }, LOOK_EVERY_MS);
    // The waiters themselves keep the process alive.
    (looking as { unref?: () => void }).unref?.();
  }

  async function look(watched: readonly (readonly [id: string, stream: Stream])[]): Promise<void> {
    const onSuccess = watched.map(([id]) => tx.get(keys.record(id), { keysOnly: true }));
    const { body } = await gateway.call("kv/txn", tx.transaction({ onSuccess }));
    const { found, revision } = tx.readAnswer(body);
    for (const [index, [id, stream]] of watched.entries()) {
      const changedAt = found[index]?.[0]?.revision;
      // A record that does not exist has ended, or its waiters would not be there.
      const hasChanged = changedAt === undefined || Number(changedAt) > (stream.knownAt ?? Number(revision));
      stream.knownAt = Number(revision);
      if (hasChanged) watchers.wake([id]);
    }
  }

  return {
    async watch({ id, wake }) {
      if (streams.size >= MAX_STREAMS && !streams.has(id))
        throw new NevertwiceError("unavailable", `the etcd store watches ${MAX_STREAMS} records already.`);
      const stop = watchers.watch(id, wake);
      await streams.get(id)?.isActive;
      return stop;
    },
    close() {
      clearTimeout(looking);
      for (const id of [...streams.keys()]) end(id);
      watchers.clear();
    },
  };
}

/** A renewal or a kept step: the claim goes on, so the waiters need not ask. */
function isStillPending(id: string, { type, kv }: { type?: string; kv?: tx.RawKeyValue }): boolean {
  if (type === "DELETE" || kv === undefined) return false;
  try {
    const { record } = fromKeyValue(id, tx.toKeyValue(kv));
    return record.state === "pending" && !record.spent;
  } catch {
    return false;
  }
}

/** The longest line: an event with the largest record, in base64. */
const MAX_LINE = 8 << 20;

/** The lines of a stream. One that is too long ends it. */
async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const complete = rest.split("\n");
      rest = complete.pop() ?? "";
      yield* complete.filter((line) => line !== "");
      if (rest.length > MAX_LINE) return;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
