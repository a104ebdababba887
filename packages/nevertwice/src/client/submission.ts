/** `createSubmission`: one key for one submission of a form, however often it is clicked, retried or reloaded. */
import { NevertwiceError } from "../core/errors.ts";
import { checkOptions, isFunction, isText } from "../core/policy.ts";
import { untilAborted } from "./abort.ts";
import { type Caller, callerOf, createFetch, type KeyedFetch } from "./fetch.ts";
import { changed, isKeyStorage, type KeptKey, type KeyStorage } from "./key-book.ts";
import { digestOf, type Outgoing, prepare } from "./outgoing.ts";
import type { Fetch } from "./settings.ts";

/** docs/client.md explains each. */
export interface SubmissionOptions {
  readonly fetch?: Fetch | KeyedFetch | undefined;
  readonly storage?: KeyStorage | undefined;
  readonly name?: string | undefined;
}

/**
 * `ready`: the form may be edited and sent. `sending`: it is on its way. `unknown`: it may have been carried out, and
 * only the same content may be sent again, until an answer says what became of it.
 */
export type SubmissionStatus = "ready" | "sending" | "unknown";

export interface Submission {
  /**
   * Sends under this submission's key; what is sent twice at a time is one request, and each caller gets its answer.
   * Fails with `conflict` on other content while an earlier one is on its way or its outcome is unknown.
   */
  send(input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** Gives the key up: what is sent next is new work, even if the earlier one was carried out. */
  reset(): Promise<void>;
  /** The key in use; undefined before the first send and after a final answer. */
  readonly key: string | undefined;
  readonly status: SubmissionStatus;
}

interface Flight {
  readonly digest: string;
  readonly answer: Promise<Response>;
  /** Ends the request; only when the last of its callers is gone. */
  readonly end: AbortController;
  callers: number;
}

/** Where there is no storage, the one name in a Map of its own. */
const OWN_NAME = "submission";

/** Fails with `options-invalid`. */
export function createSubmission(options: SubmissionOptions = {}): Submission {
  checkOptions(options, { fetch: isFunction, storage: isKeyStorage, name: isText });
  if ((options.storage === undefined) !== (options.name === undefined))
    throw new NevertwiceError("options-invalid", "storage and name go together.");
  const { fetch, storage = new Map<string, string>(), name = OWN_NAME } = options;
  const caller = (fetch && callerOf(fetch)) ?? (callerOf(createFetch({ fetch })) as Caller);
  const book = caller.bookOf(storage);
  let flight: Flight | undefined;
  let kept: KeptKey | undefined;

  function begin(outgoing: Outgoing, digest: string): Flight {
    const end = new AbortController();
    // After a reset, what becomes of the old key is nobody's business.
    const watch = (now: KeptKey | undefined) => {
      if (flight === mine) kept = now;
    };
    const fly = async () => {
      try {
        return await caller.sendKept({ ...outgoing, signal: end.signal }, { book, name, watch });
      } catch (error) {
        // It may be the key of an earlier page that was refused to us.
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
      const digest = await digestOf(outgoing);
      if (digest === undefined) throw invalid("a submission's body must be one that can be sent again.");
      if ("idempotencyKey" in init || "idempotencyName" in init || outgoing.headers.has(caller.header))
        throw invalid("a submission makes its key itself.");
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

function invalid(reason: string): NevertwiceError {
  return new NevertwiceError("options-invalid", reason);
}
