/** `createFetch`: a fetch that creates a key before the first try and sends the same key with every retry. */
import { NevertwiceError } from "../core/errors.ts";
import { createKey, type FetchOptions, type FetchSettings, resolveFetchOptions } from "./fetch-options.ts";
import { keyHeaderValue } from "./key.ts";
import { createKeyBook, type KeptKey, type KeyBook, type KeyStorage, type KeyVerdict } from "./key-book.ts";
import { digestRequest, type KeyedRequestInit, type OutgoingRequest, prepare } from "./outgoing-request.ts";
import { sendUntilAnswered } from "./retry-loop.ts";

/** Accepted wherever a fetch is expected. */
export type KeyedFetch = (input: string | URL | Request, init?: KeyedRequestInit) => Promise<Response>;

/** The sender behind a fetch that `createFetch` returned. */
export interface KeyedSender {
  readonly header: string;
  createBook(storage: KeyStorage): KeyBook;
  /** Sends with the key that the book stores under that name. */
  sendKept(outgoing: OutgoingRequest, place: KeyLocation): Promise<Response>;
}

export interface KeyLocation {
  readonly book: KeyBook;
  readonly name: string;
  /** Called with the key that is used, and again with what the book stores afterwards. */
  readonly watch?: (kept: KeptKey | undefined) => void;
}

const SENDERS = new WeakMap<object, KeyedSender>();

/** Undefined for a fetch that `createFetch` did not create. */
export function findSender(fetch: object): KeyedSender | undefined {
  return SENDERS.get(fetch);
}

/** Throws `options-invalid`. docs/client.md describes what is retried, and when. */
export function createFetch(options: FetchOptions = {}): KeyedFetch {
  const settings = resolveFetchOptions(options);
  if (findSender(settings.fetch) !== undefined)
    throw new NevertwiceError(
      "options-invalid",
      "fetch was created by createFetch, which already retries; pass another fetch.",
    );
  const caller = createSender(settings);
  const book = settings.storage === undefined ? undefined : caller.createBook(settings.storage);

  const keyedFetch: KeyedFetch = async (input, init = {}) => {
    const { idempotencyKey, idempotencyName: name } = init;
    const outgoing = await prepare(input, init);
    if (name === undefined) {
      setKey(outgoing, idempotencyKey, settings);
      const { deadlineMs } = settings;
      return (await sendUntilAnswered(outgoing, settings, { deadlineMs, isWhole: false })).response;
    }
    if (typeof name !== "string" || name === "") throw invalid("idempotencyName must be a non-empty string.");
    if (book === undefined) throw invalid("idempotencyName needs the option storage.");
    if (idempotencyKey !== undefined || outgoing.headers.has(settings.header))
      throw invalid("a call has both a key and an idempotencyName; give one of them.");
    return caller.sendKept(outgoing, { book, name });
  };
  SENDERS.set(keyedFetch, caller);
  return keyedFetch;
}

function createSender(settings: FetchSettings): KeyedSender {
  const { header, format, clock, windowMs, deadlineMs } = settings;
  return {
    header,
    createBook: (storage) => createKeyBook(storage, { clock, windowMs, newKey: () => createKey(settings) }),

    async sendKept(outgoing, { book, name, watch }) {
      refuseWithoutCors(outgoing);
      const taken = await book.take(name, await digestRequest(outgoing));
      watch?.(taken);
      let verdict: KeyVerdict = "refused";
      try {
        outgoing.headers.set(header, keyHeaderValue(taken.key, format));
        outgoing.signal?.throwIfAborted();
        verdict = "unknown";
        const rememberedMs = taken.createdAt + windowMs - clock.now();
        const limits = { deadlineMs: Math.min(deadlineMs, rememberedMs), isWhole: true };
        const answer = await sendUntilAnswered(outgoing, settings, limits);
        verdict = answer.verdict;
        return answer.response;
      } finally {
        const left = await taken.settle(verdict);
        watch?.(left);
      }
    },
  };
}

/** A key that the caller gives is used unchanged. The header is always set here, so that no browser adds its own key. */
function setKey(outgoing: OutgoingRequest, key: string | false | undefined, settings: FetchSettings): void {
  const { header, format, methods } = settings;
  const { headers, method } = outgoing;
  if (key === false) headers.delete(header);
  else if (key !== undefined) headers.set(header, keyHeaderValue(key, format));
  else if (!headers.has(header) && methods.includes(method))
    headers.set(header, keyHeaderValue(createKey(settings), format));
  if (!headers.has(header)) return;
  if (headers.get(header) === "") throw new NevertwiceError("key-invalid", `the header ${header} is empty.`);
  refuseWithoutCors(outgoing);
}

/** With `no-cors`, a browser drops the header silently, and a retry would run the request twice. */
function refuseWithoutCors({ init, input }: OutgoingRequest): void {
  const mode = init.mode ?? (typeof input === "object" && "mode" in input ? input.mode : undefined);
  if (mode === "no-cors")
    throw invalid('a request with mode: "no-cors" cannot carry a key; use mode: "cors".');
}

function invalid(reason: string): NevertwiceError {
  return new NevertwiceError("options-invalid", reason);
}
