/**
 * Keys that outlive a call, each under the name of one piece of work: written down before the first send, found again
 * by the next call or the next process, struck out by an answer that will not change. While nobody knows what became
 * of a request, its key stands for that request alone: another one under its name is refused.
 */
import type { Clock } from "../core/clock.ts";
import { NevertwiceError } from "../core/errors.ts";

/** Where kept keys live. A `Map` is one; localStorage and files take three lines. May be async. */
export interface KeyStorage {
  get(name: string): string | null | undefined | PromiseLike<string | null | undefined>;
  set(name: string, value: string): unknown;
  delete(name: string): unknown;
}

export interface KeptKey {
  readonly key: string;
  readonly createdAt: number;
  /** Of the request that it was made for, where one could be taken. */
  readonly digest?: string;
  /** Every answer so far said that nothing was done under it, so that it does not bind anybody. */
  readonly isUnused?: boolean;
}

/**
 * What an answer says about its key. `final`: it will not change. `refused`: nothing was done this time, ask again
 * under the same key. `unknown`: it may have been done.
 */
export type Meaning = "final" | "refused" | "unknown";

export interface KeyBook {
  /** Fails with `conflict` if the key under that name stands for another request, with `unknown` if it is too old. */
  take(name: string, digest: string | undefined): Promise<TakenKey>;
  /** What is kept under that name now. */
  peek(name: string): Promise<KeptKey | undefined>;
  /** Strikes the name out, whatever is under it. */
  forget(name: string): Promise<void>;
}

export interface TakenKey extends KeptKey {
  /** To be called once, with what came of it; answers what is kept from now on. */
  settle(meaning: Meaning): Promise<KeptKey | undefined>;
}

export interface BookSettings {
  readonly clock: Clock;
  readonly windowMs: number;
  readonly newKey: () => string;
}

export function createKeyBook(storage: KeyStorage, { clock, windowMs, newKey }: BookSettings): KeyBook {
  const turns = new Map<string, Promise<unknown>>();
  const users = new Map<string, number>();

  /** One step at a time for a name: two calls that begin together must find one key, not make two. */
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

  /** A key that was used binds: to its request, and to the time for which the server remembers it. */
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

  async function leave(name: string, mine: KeptKey, meaning: Meaning): Promise<KeptKey | undefined> {
    const found = await find(name);
    if (found?.key !== mine.key) return undefined;
    if (meaning === "unknown") return found;
    if (meaning === "refused") return write(name, { ...found, isUnused: true });
    await storage.delete(name);
    return undefined;
  }

  return {
    take: (name, digest) =>
      inTurn(name, async () => {
        const [kept, isFresh] = await enter(name, digest);
        users.set(name, (users.get(name) ?? 0) + 1);
        const settle = (meaning: Meaning) =>
          inTurn(name, async () => {
            const others = (users.get(name) ?? 1) - 1;
            if (others === 0) users.delete(name);
            else users.set(name, others);
            const isBound = meaning === "refused" && (!isFresh || others > 0);
            // A key that stays by mistake makes the next call a replay; so this failure is no reason to fail.
            return leave(name, kept, isBound ? "unknown" : meaning).catch(() => kept);
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
    "an earlier request under this name may have been carried out, and this one differs from it. Send the earlier one again to learn what became of it, or give its key up to start anew.",
  );
}

function tooOld(): NevertwiceError {
  return new NevertwiceError(
    "unknown",
    "the key under this name is older than the server remembers keys, so sending it again could do the work twice. Find out what became of the earlier request, then give its key up.",
  );
}

function parse(text: string): KeptKey {
  try {
    const kept = JSON.parse(text) as KeptKey;
    if (typeof kept.key === "string" && typeof kept.createdAt === "number") return kept;
  } catch {
    // Told below, with everything else that is no key of ours.
  }
  throw new NevertwiceError(
    "unknown",
    "what is stored under this name is no key of ours, so nobody knows whether the request was sent before.",
  );
}
