/** `createSubmission`: one key for one submission of a form, however often it is clicked, retried or reloaded. */
import { untilAborted } from "./abort.ts";
import { optionsInvalid } from "./client-error.ts";
import { findSettings, type KeyedFetch, sendKept } from "./fetch.ts";
import { type Fetch, resolveFetchOptions } from "./fetch-options.ts";
import { changed, createKeyBook, KEY_STORAGE, type KeptKey, type KeyStorage } from "./key-book.ts";
import { applyRules, isFunction, matches, valueThat } from "./option-rules.ts";
import { digestRequest, type OutgoingRequest, prepare } from "./outgoing-request.ts";

/** Options of `createSubmission`. */
export interface SubmissionOptions {
  /**
   * Sends the requests: a `fetch`, or what `createFetch` returned, whose options then apply.
   * @default the platform's `fetch`
   */
  readonly fetch?: Fetch | KeyedFetch | undefined;
  /**
   * Where the key outlives a reload: localStorage or sessionStorage, wrapped. Needs `name`.
   * @default memory
   */
  readonly storage?: KeyStorage | undefined;
  /** The name of the key in the storage. Needs `storage`. */
  readonly name?: string | undefined;
}

/**
 * `ready`: the form can be edited and sent. `sending`: a request is under way. `unknown`: the request may have been
 * carried out. Until an answer tells its outcome, only the same content can be sent again.
 */
export type SubmissionStatus = "ready" | "sending" | "unknown";

/** One submission of a form: however often it is clicked, retried or reloaded, all requests have one key. */
export interface Submission {
  /**
   * Sends with this submission's key. Calls that overlap share one request, and each caller gets its answer. Throws
   * `conflict` for other content while an earlier request is under way or its outcome is unknown.
   */
  send(input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** Deletes the key: the next request is new work, even if the earlier one was carried out. */
  reset(): Promise<void>;
  /** The key in use; undefined before the first send and after a final answer. */
  readonly key: string | undefined;
  /** Whether the form can be edited and sent. */
  readonly status: SubmissionStatus;
}

interface Flight {
  readonly digest: string;
  readonly answer: Promise<Response>;
  /** Aborts the request when the last of its callers has cancelled. */
  readonly end: AbortController;
  callers: number;
}

/** Without a storage, the key is stored under this name in a private Map. */
const OWN_NAME = "submission";

/**
 * Creates the key of one submission of a form, which all its requests carry.
 * @throws `options-invalid`
 * @example
 * ```ts
 * import { createSubmission } from "nevertwice/client";
 *
 * const submission = createSubmission();
 * const submit = (form: FormData) => submission.send("/orders", { method: "POST", body: form });
 * console.log(submission.status, typeof submit); // ready function: two clicks send one request
 * ```
 */
export function createSubmission(options: SubmissionOptions = {}): Submission {
  applyRules(options, {
    fetch: isFunction,
    storage: KEY_STORAGE,
    name: valueThat(matches(/./s), "a string that is not empty"),
  });
  if ((options.storage === undefined) !== (options.name === undefined))
    throw optionsInvalid("storage and name must be given together.");
  const { fetch, storage = new Map<string, string>(), name = OWN_NAME } = options;
  const settings = (fetch && findSettings(fetch)) ?? resolveFetchOptions({ fetch });
  const book = createKeyBook(storage, settings);
  let flight: Flight | undefined;
  let kept: KeptKey | undefined;

  function begin(outgoing: OutgoingRequest, digest: string): Flight {
    const end = new AbortController();
    // After a reset, the old request no longer changes the state of the submission.
    const watch = (now: KeptKey | undefined) => {
      if (flight === mine) kept = now;
    };
    const fly = async () => {
      try {
        return await sendKept({ ...outgoing, signal: end.signal }, settings, { book, name, watch });
      } catch (error) {
        // The conflict may be with a key that an earlier page has stored.
        watch(await book.peek(name).catch(() => kept));
        throw error;
      } finally {
        if (flight === mine) flight = undefined;
      }
    };
    const mine: Flight = { digest, answer: Promise.resolve().then(fly), end, callers: 0 };
    return mine;
  }

  async function join(joined: Flight, signal: AbortSignal | undefined): Promise<Response> {
    joined.callers++;
    try {
      const response = await untilAborted(signal, joined.answer);
      return response.clone();
    } catch (error) {
      joined.callers--;
      if (joined.callers === 0 && signal?.aborted) {
        if (flight === joined) flight = undefined;
        joined.end.abort(signal.reason);
      }
      throw error;
    }
  }

  return {
    async send(input, init = {}) {
      const outgoing = await prepare(input, init);
      const digest = await digestRequest(outgoing);
      if (digest === undefined)
        throw optionsInvalid("the body of a submission must not be a stream, since it may be sent again.");
      if ("idempotencyKey" in init || "idempotencyName" in init || outgoing.headers.has(settings.header))
        throw optionsInvalid(
          "a submission creates its own key; remove idempotencyKey, idempotencyName and the key header.",
        );
      flight ??= begin(outgoing, digest);
      if (flight.digest !== digest) throw changed();
      return join(flight, outgoing.signal);
    },
    async reset() {
      flight = undefined;
      kept = undefined;
      await book.forget(name);
    },
    get key() {
      return kept?.key;
    },
    get status() {
      if (flight !== undefined) return "sending";
      return kept === undefined || kept.isUnused === true ? "ready" : "unknown";
    },
  };
}
