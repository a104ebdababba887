/**
 * Keys that outlive a call, each stored under the name of one piece of work. The book stores a key before the first send;
 * the next call, or the next process, finds it again; a final answer removes it. While the outcome of a request is
 * unknown, its key belongs to that request, and another request under the same name is refused.
 */
import type { Clock } from "../core/clock.ts";
import { ClientError } from "./client-error.ts";
import { createKey, type KeySource } from "./key.ts";
import { type OptionRule, objectWith } from "./option-rules.ts";

/** Where the book stores keys. A `Map` works; localStorage and files need three lines. Methods may be async. */
export interface KeyStorage {
  /** The text under this name; null or undefined if there is none. */
  get(name: string): string | null | undefined | PromiseLike<string | null | undefined>;
  /** Stores the text under this name. */
  set(name: string, value: string): unknown;
  /** Removes what is stored under this name. */
  delete(name: string): unknown;
}

export interface KeptKey {
  readonly key: string;
  readonly createdAt: number;
  /** The digest of the request that the key was created for, if its body could be read. */
  readonly digest?: string | undefined;
  /** Every answer so far said that nothing was done, so another request may replace the key. */
  readonly isUnused?: boolean;
}

/**
 * What an answer means for its key. `final`: the answer will not change. `refused`: nothing was done; send again with the
 * same key. `unknown`: the request may have been carried out.
 */
export type KeyVerdict = "final" | "refused" | "unknown";

export interface KeyBook {
  /** Throws `conflict` if the key under that name belongs to another request, and `unknown` if it is too old. */
  take(name: string, digest: string | undefined): Promise<TakenKey>;
  /** The key that is stored under that name. */
  peek(name: string): Promise<KeptKey | undefined>;
  /** Removes the key under that name. */
  forget(name: string): Promise<void>;
}

export interface TakenKey extends KeptKey {
  /** Call it once, with the verdict. Returns the key that is stored from now on. */
  settle(verdict: KeyVerdict): Promise<KeptKey | undefined>;
}

export interface KeyBookOptions extends KeySource {
  readonly clock: Clock;
  readonly windowMs: number;
}

export function createKeyBook(storage: KeyStorage, options: KeyBookOptions): KeyBook {
  const { clock, windowMs } = options;
  const turns = new Map<string, Promise<unknown>>();
  const users = new Map<string, number>();

  /** Runs one step at a time for each name: two calls that start together must use one key, not create two. */
  function inTurn<T>(name: string, step: () => Promise<T>): Promise<T> {
    const turn = (turns.get(name) ?? Promise.resolve()).then(step, step);
    turns.set(name, turn);
    const end = () => turns.get(name) === turn && turns.delete(name);
    turn.then(end, end);
    return turn;
  }

  async function find(name: string): Promise<KeptKey | undefined> {
    const text = await storage.get(name);
    return text === null || text === undefined ? undefined : parse(text);
  }

  async function write(name: string, kept: KeptKey): Promise<KeptKey> {
    await storage.set(name, JSON.stringify(kept));
    return kept;
  }

  async function enter(name: string, digest: string | undefined): Promise<readonly [KeptKey, boolean]> {
    const found = await find(name);
    if (found === undefined || found.isUnused === true) {
      const key = found !== undefined && digest === found.digest ? found.key : createKey(options);
      return [await write(name, { key, createdAt: clock.now(), digest }), true];
    }
    // A key that was used belongs to its request, and is valid only as long as the server remembers it.
    if (clock.now() - found.createdAt >= windowMs)
      throw unknown("the key under this name is older than windowMs: the server may have forgotten it");
    if (digest !== undefined && found.digest !== undefined && digest !== found.digest) throw changed();
    return [found, false];
  }

  async function leave(name: string, mine: KeptKey, verdict: KeyVerdict): Promise<KeptKey | undefined> {
    const found = await find(name);
    if (found?.key !== mine.key) return undefined;
    if (verdict === "unknown") return found;
    if (verdict === "refused") return write(name, { ...found, isUnused: true });
    await storage.delete(name);
    return undefined;
  }

  return {
    take: (name, digest) =>
      inTurn(name, async () => {
        const [kept, isFresh] = await enter(name, digest);
        users.set(name, (users.get(name) ?? 0) + 1);
        const settle = (verdict: KeyVerdict) =>
          inTurn(name, async () => {
            const others = (users.get(name) ?? 1) - 1;
            if (others === 0) users.delete(name);
            else users.set(name, others);
            const isBound = verdict === "refused" && (!isFresh || others > 0);
            // If the storage fails here, the key stays, and the next call gets a replay. So the call need not fail.
            return leave(name, kept, isBound ? "unknown" : verdict).catch(() => kept);
          });
        return { ...kept, settle };
      }),
    peek: (name) => inTurn(name, () => find(name)),
    forget: (name) => inTurn(name, async () => void (await storage.delete(name))),
  };
}

export const KEY_STORAGE: OptionRule = objectWith("get", "set", "delete");

export function changed(): ClientError<"conflict"> {
  return new ClientError(
    "conflict",
    422,
    "an earlier request under this name may have been carried out, and this one differs. Send the earlier one again to learn its outcome, or delete its key.",
  );
}

/** Nobody can tell from the key whether its request was carried out. */
function unknown(problem: string): ClientError<"unknown"> {
  return new ClientError(
    "unknown",
    409,
    `${problem}. Find out whether the request was carried out, then delete its key.`,
  );
}

function parse(text: string): KeptKey {
  try {
    const kept = JSON.parse(text) as KeptKey;
    if (typeof kept.key === "string" && typeof kept.createdAt === "number") return kept;
  } catch {
    // Reported below, like every other value that is not a kept key.
  }
  throw unknown("the value stored under this name is not a kept key");
}
