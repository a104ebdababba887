/**
 * Erases a requester: from commitments that are over, and from the kept requests that placed them. Each commitment is its own
 * transaction, which also adds the `erased` event to the chain of its resource. Placement and outcome stay: only who asked is gone.
 *
 *   over commitments of the requester ── each: its row and the key that placed it lose the requester and the salt
 *   holds ── stay as they are, and are counted
 */
import type { Timer } from "../core/clock.ts";
import { isNevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { checkOptions, isText } from "../core/option-checks.ts";
import { callWithin, TimedOut } from "../core/store-call.ts";
import { createErasureRequest } from "./action-request.ts";
import type { Answer } from "./answer.ts";
import { commitmentSubject } from "./journal.ts";
import { isLimit } from "./reads.ts";
import { NotWritten, type ReservationStore, type Rules } from "./store.ts";
import { unreadableError } from "./stored-rows.ts";

/** Whose name is to be erased. */
export interface ErasureRequest {
  /** The requester whose commitments are erased. */
  readonly requester: string;
  /** The most commitments that one call tries to erase; default 100, maximum 1,000. */
  readonly limit?: number | undefined;
}

/** What one call of `erase` did. */
export interface Erasure {
  /** Commitments that no longer name the requester. */
  readonly erased: number;
  /** Holds that still name the requester, at most `limit` of them: end them first. */
  readonly held: number;
  /** Whether commitments that are over may still name the requester: call again. */
  readonly more: boolean;
}

const DEFAULT_LIMIT = 100;
/** How often a transaction is tried that failed, or whose result is not known. */
const TRIES = 3;
const OVER = ["confirmed", "released", "expired"] as const;

export interface EraserOptions {
  readonly store: ReservationStore;
  readonly rules: Rules;
  readonly timer: Timer;
  /** How long one erasure may take. */
  readonly actionMs: number;
}

/** Throws `store-unsafe` if a row that names the requester is damaged; the others are erased before. */
export function createEraser(options: EraserOptions): (request: ErasureRequest) => Promise<Erasure> {
  const { store, rules } = options;
  const { namespace } = rules;

  return async (request) => {
    checkOptions(request, { requester: isText, limit: isLimit });
    const requester = checkedPart(request.requester, "requester", "options-invalid");
    const { limit = DEFAULT_LIMIT } = request;
    let tried = 0;
    let erased = 0;
    let broken: unknown;
    for (const state of OVER) {
      let after: string | undefined;
      do {
        const page = await store.commitments({ namespace, requester, state, limit, after });
        const [unreadable] = page.unreadable ?? [];
        if (unreadable !== undefined) broken ??= unreadableError(unreadable);
        for (const { id } of page.rows) {
          if (tried++ === limit) return { erased, held: await countHeld(requester, limit), more: true };
          try {
            if (await eraseOne(options, id)) erased++;
          } catch (error) {
            // A row that contradicts itself does not keep the others from being erased.
            if (!isNevertwiceError(withoutWrapper(error), "store-unsafe")) throw error;
            broken ??= withoutWrapper(error);
          }
        }
        after = page.next;
      } while (after !== undefined);
    }
    if (broken !== undefined) throw broken;
    return { erased, held: await countHeld(requester, limit), more: erased < tried };
  };

  async function countHeld(requester: string, limit: number): Promise<number> {
    return (await store.commitments({ namespace, requester, state: "held", limit })).rows.length;
  }
}

function withoutWrapper(error: unknown): unknown {
  return error instanceof NotWritten ? error.cause : error;
}

/** False: a transaction of the application has locked it, or another call erased it meanwhile. */
async function eraseOne({ store, rules, timer, actionMs }: EraserOptions, id: string): Promise<boolean> {
  const { namespace } = rules;
  const request = createErasureRequest(namespace, id);
  for (let tries = 1; ; tries++) {
    try {
      const [answer] = await callWithin(
        { store: {}, timer },
        actionMs,
        async (): Promise<readonly (Answer | undefined)[]> => {
          // Read anew for each try: a key that was purged meanwhile has nothing to erase.
          const group = [{ ...request, erasesKey: await findPlacingKey(store, namespace, id) }];
          return store.transactSkippingLocked?.(group, rules) ?? store.transact(group, rules);
        },
      );
      return answer?.ok === true;
    } catch (error) {
      // Repeating is safe: only this call uses the key, so an answer stored under it is the answer of this call.
      if (error instanceof TimedOut || tries === TRIES) throw error;
    }
  }
}

/** The kept key that placed the commitment, if it was not purged and not recorded again. */
async function findPlacingKey(
  store: ReservationStore,
  namespace: string,
  id: string,
): Promise<string | undefined> {
  const { rows: events } = await store.events({ namespace, subject: commitmentSubject(id), limit: 1 });
  const keyId = events[0]?.keyId;
  if (keyId === undefined) return undefined;
  const { rows, unreadable } = await store.keys({ namespace, id: keyId, limit: 1 });
  if (unreadable?.[0] !== undefined) throw unreadableError(unreadable[0]);
  return rows[0]?.commitment === id ? keyId : undefined;
}
