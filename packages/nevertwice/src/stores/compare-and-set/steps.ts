/**
 * The steps of a store that can read a record, and write it if nobody changed it since: read, let the state machine
 * decide, write over exactly what was read, and start over where somebody was quicker. Every write leaves a mark of its
 * own, so no change goes unseen, not even one to the same values.
 */
import { NevertwiceError } from "../../core/errors.ts";
import * as machine from "../../core/record.ts";
import type { ClaimAnswer, ClaimRequest, CompleteRequest, Store, StoreRecord } from "../../core/store.ts";

export interface Found {
  readonly record: machine.Kept | undefined;
  /** What the last write of the record left; empty where there is none. */
  readonly mark: string;
  /** The time that judges it, by the store's clock. */
  readonly now: number;
}

/** Done, with the fence as it was written; or overtaken, with what stands there now if the store said so. */
export type Written = { readonly fence: number } | { readonly overtakenBy: Found | undefined };

export interface Shelf {
  read(id: string): Promise<Found>;
  /** Writes over what was found, or where nothing was. Undefined removes it. */
  write(id: string, found: Found, record: machine.Kept | undefined): Promise<Written>;
}

export interface Steps extends Required<Pick<Store, "abandon" | "renew" | "forget">> {
  /** `first` is what to go by before anything was read: a guess is safe, since only a write proves it. */
  claim(request: ClaimRequest, first?: Found): Promise<ClaimAnswer>;
  /** `first` is what is known to stand there. */
  complete(request: CompleteRequest, first?: Found): Promise<boolean>;
  read(id: string): Promise<StoreRecord | undefined>;
}

/** One race more than this in one step, and it is not a race that we are losing. */
const MAX_RACES = 20;

interface Decision<Answer> {
  readonly answer: Answer;
  readonly write?: machine.Kept;
  readonly removes?: boolean;
}

export function createSteps(shelf: Shelf): Steps {
  /** Answers with the fence that was written, if anything was. */
  async function take<Answer>(
    id: string,
    decide: (found: Found) => Decision<Answer>,
    first?: Found,
  ): Promise<{ answer: Answer; fence: number | undefined }> {
    let found = first ?? (await shelf.read(id));
    for (let races = 0; races < MAX_RACES; races++) {
      const { answer, write, removes = false } = decide(found);
      if (write === undefined && !removes) return { answer, fence: undefined };
      const written = await shelf.write(id, found, write);
      // one-owner: nothing was granted, kept or given up before a write that is proven.
      if ("fence" in written) return { answer, fence: written.fence };
      found = written.overtakenBy ?? (await shelf.read(id));
    }
    throw new NevertwiceError("unavailable", `others changed the record ${MAX_RACES} times before we could.`);
  }

  async function settle(
    id: string,
    decide: (found: Found) => Decision<boolean>,
    first?: Found,
  ): Promise<boolean> {
    return (await take(id, decide, first)).answer;
  }

  return {
    async claim(request, first) {
      const decide = ({ record, now }: Found) =>
        machine.claimRecord(record, request, now, (after) => Math.max(after + 1, Math.floor(now * 1_000)));
      const { answer, fence } = await take(request.id, decide, first);
      return answer.status === "new" && fence !== undefined ? { ...answer, fence } : answer;
    },

    complete: (request, first) =>
      settle(request.id, ({ record, now }) => machine.completeRecord(record, request, now), first),

    abandon: ({ id, token, as }) =>
      settle(id, ({ record, now }) => machine.abandonRecord(record, token, as, now)),

    renew: ({ id, token, leaseMs }) =>
      settle(id, ({ record, now }) => machine.renewRecord(record, token, leaseMs, now)),

    forget: (request) =>
      settle(request.id, ({ record, now }) => {
        const step = machine.forgetRecord(record, request, now);
        return { ...step, removes: step.answer && step.write === undefined };
      }),

    async read(id) {
      const { record, now } = await shelf.read(id);
      return record === undefined || machine.isExpired(record, now) ? undefined : machine.viewOf(record, now);
    },
  };
}
