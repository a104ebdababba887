/** What people and their tools look at: commitments, resources, and what happened to them. Nothing here needs a key. */

import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isText, oneOf, wholeFrom } from "../core/policy.ts";
import { type CommitmentState, isElapsed } from "./commitment.ts";
import { commitmentSubject, type JournalEvent } from "./journal.ts";
import type { CommitmentQuery, KeptCommitment, KeptResource, Page, ReservationStore } from "./ledger.ts";

export interface Paging {
  /** How many at most; default 100, and no more than 1,000. */
  readonly limit?: number | undefined;
  /** The `next` of the page before. */
  readonly after?: string | undefined;
}

export interface HeldQuery extends Paging {
  readonly resource?: string | undefined;
  readonly requester?: string | undefined;
}

export interface CommitmentsQuery extends HeldQuery {
  readonly state?: CommitmentState | undefined;
}

/** A commitment as people see it. */
export interface CommitmentView extends KeptCommitment {
  /** Held, and its time is over: it can no longer be confirmed, whether or not somebody has written that it expired. */
  readonly isElapsed: boolean;
}

export interface Reads {
  get(id: string): Promise<CommitmentView | undefined>;
  /** Commitments in every state, or in one. */
  list(query?: CommitmentsQuery): Promise<Page<CommitmentView>>;
  /** What is held: all of it, or of one resource or requester. */
  listHeld(query?: HeldQuery): Promise<Page<CommitmentView>>;
  byResource(resource: string, page?: Paging): Promise<Page<CommitmentView>>;
  byRequester(requester: string, page?: Paging): Promise<Page<CommitmentView>>;
  /** All that happened to a commitment, from its first event on. */
  history(id: string): Promise<readonly JournalEvent[]>;
  resource(name: string): Promise<KeptResource | undefined>;
  /** Resources that were declared, or that something was held of, by their names. */
  listResources(page?: Paging): Promise<Page<KeptResource>>;
}

const PAGE = 100;
const MAX_PAGE = 1_000;

const PAGING_CHECKS: Readonly<Record<string, Check>> = { limit: isLimit, after: isText };
const HELD_CHECKS = { ...PAGING_CHECKS, resource: isText, requester: isText };
const STATES = ["held", "confirmed", "released", "expired"] as const satisfies readonly CommitmentState[];

export function readsOf(store: ReservationStore, namespace: string): Reads {
  async function view(
    query: Omit<CommitmentQuery, "limit" | "namespace"> & Paging,
  ): Promise<Page<CommitmentView>> {
    const { limit = PAGE, ...rest } = query;
    const [page, now] = await Promise.all([store.commitments({ ...rest, limit, namespace }), store.now()]);
    return { ...page, rows: page.rows.map((row) => viewOf(row, now)) };
  }

  async function viewBy(
    name: "resource" | "requester",
    value: string,
    page: Paging,
  ): Promise<Page<CommitmentView>> {
    checkedPart(value, name, "options-invalid");
    checkOptions(page, PAGING_CHECKS);
    return view({ ...page, [name]: value });
  }

  return {
    async get(id) {
      const { commitment, now } = await store.get(namespace, checkedPart(id, "id", "options-invalid"));
      return commitment && viewOf(commitment, now);
    },
    async list(query = {}) {
      checkOptions(query, { ...HELD_CHECKS, state: oneOf(...STATES) });
      return view(query);
    },
    async listHeld(query = {}) {
      checkOptions(query, HELD_CHECKS);
      return view({ ...query, state: "held" });
    },
    byResource: (resource, page = {}) => viewBy("resource", resource, page),
    byRequester: (requester, page = {}) => viewBy("requester", requester, page),
    async history(id) {
      const subject = commitmentSubject(checkedPart(id, "id", "options-invalid"));
      const events: JournalEvent[] = [];
      let after: string | undefined;
      do {
        const page = await store.events({ namespace, subject, limit: PAGE, after });
        events.push(...page.rows);
        after = page.next;
      } while (after !== undefined);
      return events;
    },
    async resource(name) {
      checkedPart(name, "name", "options-invalid");
      return (await store.resources({ namespace, name, limit: 1 })).rows[0];
    },
    async listResources(page = {}) {
      checkOptions(page, PAGING_CHECKS);
      const { limit = PAGE, after } = page;
      return store.resources({ namespace, limit, after });
    },
  };
}

function viewOf(commitment: KeptCommitment, now: number): CommitmentView {
  return { ...commitment, isElapsed: commitment.state === "held" && isElapsed(commitment, now) };
}

function isLimit(name: string, value: unknown): void {
  wholeFrom(1)(name, value);
  if ((value as number) > MAX_PAGE)
    throw new NevertwiceError("options-invalid", `${name} is ${value}; ${MAX_PAGE} is the most.`);
}
