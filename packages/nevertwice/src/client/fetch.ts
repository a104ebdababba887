/** `createFetch`: a fetch that creates a key before the first try and sends the same key with every retry. */
import { keyInvalid, optionsInvalid } from "./client-error.ts";
import { type FetchOptions, type FetchSettings, resolveFetchOptions } from "./fetch-options.ts";
import { createKey, keyHeaderValue } from "./key.ts";
import { createKeyBook, type KeptKey, type KeyBook, type KeyVerdict } from "./key-book.ts";
import { digestRequest, type KeyedRequestInit, type OutgoingRequest, prepare } from "./outgoing-request.ts";
import { sendUntilAnswered } from "./retry-loop.ts";

/** Accepted wherever a fetch is expected. */
export type KeyedFetch = (input: string | URL | Request, init?: KeyedRequestInit) => Promise<Response>;

/** Where the key of a request is kept. */
export interface KeyLocation {
  readonly book: KeyBook;
  readonly name: string;
  /** Called with the key that is used, and again with what the book stores afterwards. */
  readonly watch?: (kept: KeptKey | undefined) => void;
}

const SETTINGS = new WeakMap<object, FetchSettings>();

/** Undefined for a fetch that `createFetch` did not create. */
export function findSettings(fetch: object): FetchSettings | undefined {
  return SETTINGS.get(fetch);
}

/**
 * Creates a `fetch` that sends an `Idempotency-Key` with each POST and PATCH, and retries with the same key until the server
 * answers. A request whose answer says that a retry is useless is not repeated.
 * @throws `options-invalid`
 * @example
 * ```ts server
 * import { createFetch } from "nevertwice/client";
 *
 * const fetch = createFetch({ retries: 5 });
 * const response = await fetch("https://api.example.com/payments", {
 *   method: "POST",
 *   headers: { "Content-Type": "application/json" },
 *   body: JSON.stringify({ amount: 4_200 }), // every try carries the same Idempotency-Key
 * });
 * console.log(response.status);
 * ```
 */
export function createFetch(options: FetchOptions = {}): KeyedFetch {
  const settings = resolveFetchOptions(options);
  if (findSettings(settings.fetch) !== undefined)
    throw optionsInvalid("fetch was created by createFetch, which already retries; pass another fetch.");
  const book = settings.storage && createKeyBook(settings.storage, settings);

  const keyedFetch: KeyedFetch = async (input, init = {}) => {
    const { idempotencyKey, idempotencyName: name } = init;
    const outgoing = await prepare(input, init);
    if (name === undefined) {
      setKey(outgoing, idempotencyKey, settings);
      const { deadlineMs } = settings;
      return (await sendUntilAnswered(outgoing, settings, { deadlineMs, isWhole: false })).response;
    }
    if (typeof name !== "string" || name === "")
      throw optionsInvalid("idempotencyName must be a non-empty string.");
    if (book === undefined) throw optionsInvalid("idempotencyName needs the option storage.");
    if (idempotencyKey !== undefined || outgoing.headers.has(settings.header))
      throw optionsInvalid("a call has both a key and an idempotencyName; give one of them.");
    return sendKept(outgoing, settings, { book, name });
  };
  SETTINGS.set(keyedFetch, settings);
  return keyedFetch;
}

/** Sends with the key that the book stores under that name. */
export async function sendKept(
  outgoing: OutgoingRequest,
  settings: FetchSettings,
  { book, name, watch }: KeyLocation,
): Promise<Response> {
  const { header, format, clock, windowMs, deadlineMs } = settings;
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
  if (headers.get(header) === "") throw keyInvalid(`the header ${header} is empty.`);
  refuseWithoutCors(outgoing);
}

/** With `no-cors`, a browser drops the header silently, and a retry would run the request twice. */
function refuseWithoutCors({ init, input }: OutgoingRequest): void {
  // Text and a URL have no mode.
  if ((init.mode ?? (input as Partial<Request>).mode) === "no-cors")
    throw optionsInvalid('a request with mode: "no-cors" cannot carry a key; use mode: "cors".');
}
