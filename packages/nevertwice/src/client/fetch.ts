/** `createFetch`: a fetch that makes the key before the first try and keeps it over all of them. */
import { NevertwiceError } from "../core/errors.ts";
import { keyHeaderValue } from "./key.ts";
import { createKeyBook, type KeptKey, type KeyBook, type KeyStorage, type Meaning } from "./key-book.ts";
import { digestOf, type KeyedRequestInit, type Outgoing, prepare } from "./outgoing.ts";
import { type FetchOptions, newKeyOf, type Settings, settingsOf } from "./settings.ts";
import { sendUntilAnswered } from "./tries.ts";

/** Can stand wherever a fetch is wanted. */
export type KeyedFetch = (input: string | URL | Request, init?: KeyedRequestInit) => Promise<Response>;

/** What a fetch of ours is made of. */
export interface Caller {
  readonly header: string;
  bookOf(storage: KeyStorage): KeyBook;
  /** Sends under the key that the book keeps under that name. */
  sendKept(outgoing: Outgoing, place: KeptPlace): Promise<Response>;
}

export interface KeptPlace {
  readonly book: KeyBook;
  readonly name: string;
  /** Told which key is used, and what is kept of it afterwards. */
  readonly watch?: (kept: KeptKey | undefined) => void;
}

const CALLERS = new WeakMap<object, Caller>();

/** Undefined for a fetch that `createFetch` did not make. */
export function callerOf(fetch: object): Caller | undefined {
  return CALLERS.get(fetch);
}

/** Fails with `options-invalid`. docs/client.md says what is retried, and when. */
export function createFetch(options: FetchOptions = {}): KeyedFetch {
  const settings = settingsOf(options);
  if (callerOf(settings.fetch) !== undefined)
    throw new NevertwiceError("options-invalid", "this fetch retries already; retry at one layer only.");
  const caller = createCaller(settings);
  const book = settings.storage === undefined ? undefined : caller.bookOf(settings.storage);

  const keyedFetch: KeyedFetch = async (input, init = {}) => {
    const { idempotencyKey, idempotencyName: name } = init;
    const outgoing = await prepare(input, init);
    if (name === undefined) {
      setKey(outgoing, idempotencyKey, settings);
      const { deadlineMs } = settings;
      return (await sendUntilAnswered(outgoing, settings, { deadlineMs, isWhole: false })).response;
    }
    if (typeof name !== "string" || name === "") throw invalid("idempotencyName must be some text.");
    if (book === undefined) throw invalid("idempotencyName needs a storage to keep the key in.");
    if (idempotencyKey !== undefined || outgoing.headers.has(settings.header))
      throw invalid("a call has a key of its own or a name under which one is kept, not both.");
    return caller.sendKept(outgoing, { book, name });
  };
  CALLERS.set(keyedFetch, caller);
  return keyedFetch;
}

function createCaller(settings: Settings): Caller {
  const { header, format, clock, windowMs, deadlineMs } = settings;
  return {
    header,
    bookOf: (storage) => createKeyBook(storage, { clock, windowMs, newKey: () => newKeyOf(settings) }),

    async sendKept(outgoing, { book, name, watch }) {
      refuseWithoutCors(outgoing);
      const taken = await book.take(name, await digestOf(outgoing));
      watch?.(taken);
      let meaning: Meaning = "refused";
      try {
        outgoing.headers.set(header, keyHeaderValue(taken.key, format));
        outgoing.signal?.throwIfAborted();
        meaning = "unknown";
        const rememberedMs = taken.createdAt + windowMs - clock.now();
        const limits = { deadlineMs: Math.min(deadlineMs, rememberedMs), isWhole: true };
        const standing = await sendUntilAnswered(outgoing, settings, limits);
        meaning = standing.meaning;
        return standing.response;
      } finally {
        const left = await taken.settle(meaning);
        watch?.(left);
      }
    },
  };
}

/** A key of the caller's is used as it is. The header is always set by us, so that no browser adds one of its own. */
function setKey(outgoing: Outgoing, key: string | false | undefined, settings: Settings): void {
  const { header, format, methods } = settings;
  const { headers, method } = outgoing;
  if (key === false) headers.delete(header);
  else if (key !== undefined) headers.set(header, keyHeaderValue(key, format));
  else if (!headers.has(header) && methods.includes(method))
    headers.set(header, keyHeaderValue(newKeyOf(settings), format));
  if (!headers.has(header)) return;
  if (headers.get(header) === "") throw new NevertwiceError("key-invalid", `the header ${header} is empty.`);
  refuseWithoutCors(outgoing);
}

/** Without CORS a browser drops the header and says nothing, and a retry would be a second execution. */
function refuseWithoutCors({ init, input }: Outgoing): void {
  const mode = init.mode ?? (typeof input === "object" && "mode" in input ? input.mode : undefined);
  if (mode === "no-cors") throw invalid('a request with mode: "no-cors" cannot carry a key.');
}

function invalid(reason: string): NevertwiceError {
  return new NevertwiceError("options-invalid", reason);
}
