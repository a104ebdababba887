/**
 * Keys that outlive a call, each stored under the name of one piece of work. The book stores a key before the first send;
 * the next call, or the next process, finds it again; a final answer removes it. While the outcome of a request is
 * unknown, its key belongs to that request, and another request under the same name is refused.
 */
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";

/** Where the book stores keys. A `Map` works; localStorage and files need three lines. Methods may be async. */
export interface KeyStorage {
  get(name: string): string | null | undefined | PromiseLike<string | null | undefined>;
  set(name: string, value: string): unknown;
  delete(name: string): unknown;
}

export interface KeptKey {
  readonly key: string;
  readonly createdAt: number;
  /** The digest of the request that the key was created for, if its body could be read. */
  readonly digest?: string;
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

export interface KeyBookOptions {
  readonly clock: Clock;
  readonly windowMs: number;
  readonly newKey: () => string;
}

export function createKeyBook(storage: KeyStorage, { clock, windowMs, newKey }: KeyBookOptions): KeyBook {
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

  /** A key that was used belongs to its request, and is valid only as long as the server remembers it. */
  function checkUsed(kept: KeptKey, digest: string | undefined): void {
    if (clock.now() - kept.createdAt >= windowMs) throw tooOld();
    if (digest !== undefined && kept.digest !== undefined && digest !== kept.digest) throw changed();
  }

  async function enter(name: string, digest: string | undefined): Promise<readonly [KeptKey, boolean]> {
    const found = await find(name);
    if (found === undefined || (found.isUnused === true && digest !== found.digest)) {
      const kept = { key: newKey(), createdAt: clock.now(), ...(digest === undefined ? {} : { digest }) };
      return [await write(name, kept), true];
    }
    if (found.isUnused !== true) {
      checkUsed(found, digest);
      return [found, false];
    }
    const { isUnused: _, ...kept } = found;
    return [await write(name, { ...kept, createdAt: clock.now() }), true];
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

export function isKeyStorage(name: string, value: unknown): void {
  const storage = value as Partial<KeyStorage> | null;
  const methods = [storage?.get, storage?.set, storage?.delete];
  if (methods.every((method) => typeof method === "function")) return;
  throw new NevertwiceError("options-invalid", `${name} must be an object with get, set and delete.`);
}

export function changed(): NevertwiceError {
  return new NevertwiceError(
    "conflict",
    "an earlier request under this name may have been carried out, and this one differs from it. Send the earlier request again to learn its outcome, or delete its key to start a new one.",
  );
}

function tooOld(): NevertwiceError {
  return new NevertwiceError(
    "unknown",
    "the key under this name is older than windowMs, the time for which the server remembers keys, so sending it again could do the work twice. Find out the outcome of the earlier request, then delete its key.",
  );
}

function parse(text: string): KeptKey {
  try {
    const kept = JSON.parse(text) as KeptKey;
    if (typeof kept.key === "string" && typeof kept.createdAt === "number") return kept;
  } catch {
    // Reported below, like every other value that is not a kept key.
  }
  throw new NevertwiceError(
    "unknown",
    "the value stored under this name is not a kept key, so it is unknown whether the request was sent before. Find out, then delete the value.",
  );
}
