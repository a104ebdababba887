/** The reads: commitments, resources and their events, for people and their tools. Reads need no key. */
import { NevertwiceError } from "../core/errors.ts";
import { checkedPart } from "../core/identity.ts";
import { type Check, checkOptions, isText, oneOf, wholeFrom } from "../core/option-checks.ts";
import { COMMITMENT_STATES, type CommitmentState, isElapsed, isErased } from "./commitment.ts";
import { commitmentSubject, type JournalEvent } from "./journal.ts";
import type { CommitmentQuery, KeptCommitment, KeptResource, Page, ReservationStore } from "./store.ts";
import { unreadableError } from "./stored-rows.ts";

/** Which page to read. */
export interface Paging {
  /** The most rows of a page; default 100, maximum 1,000. */
  readonly limit?: number | undefined;
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
}

/** Which holds to read. */
export interface HeldQuery extends Paging {
  /** Only holds of this resource. */
  readonly resource?: string | undefined;
  /** Only holds of this requester. */
  readonly requester?: string | undefined;
}

/** Which commitments to read. */
export interface CommitmentsQuery extends HeldQuery {
  /** Only commitments in this state. */
  readonly state?: CommitmentState | undefined;
}

/** A commitment as people see it. */
export interface CommitmentView extends KeptCommitment {
  /** Held, but past `expiresAt`: it can no longer be confirmed, even though its expiry is not recorded yet. */
  readonly isElapsed: boolean;
  /** Its requester was erased: `requester` and `requesterSalt` are empty. */
  readonly isErased: boolean;
}

/** Lists leave out rows that cannot be read, and report them in `unreadable`. Reads of a single row throw `store-unsafe` instead. */
export interface Reads {
  /** A commitment by its id; undefined if there is none. */
  get(id: string): Promise<CommitmentView | undefined>;
  /** Commitments in all states, or in one. */
  list(query?: CommitmentsQuery): Promise<Page<CommitmentView>>;
  /** Holds: all of them, or those of one resource or requester. */
  listHeld(query?: HeldQuery): Promise<Page<CommitmentView>>;
  /** Commitments of a resource, in all states. */
  byResource(resource: string, page?: Paging): Promise<Page<CommitmentView>>;
  /** Commitments of a requester, in all states. */
  byRequester(requester: string, page?: Paging): Promise<Page<CommitmentView>>;
  /** All events of a commitment, the first one first. */
  history(id: string): Promise<readonly JournalEvent[]>;
  /** A resource by its name; undefined if it was never declared or held. */
  resource(name: string): Promise<KeptResource | undefined>;
  /** Resources that were declared, held or refused, sorted by name. */
  listResources(page?: Paging): Promise<Page<KeptResource>>;
}

const PAGE = 100;
const MAX_PAGE = 1_000;

const PAGING_CHECKS: Readonly<Record<string, Check>> = { limit: isLimit, after: isText };
const HELD_CHECKS = { ...PAGING_CHECKS, resource: isText, requester: isText };

export function createReads(store: ReservationStore, namespace: string): Reads {
  async function view(
    query: Omit<CommitmentQuery, "limit" | "namespace"> & Paging,
  ): Promise<Page<CommitmentView>> {
    const { limit = PAGE, ...rest } = query;
    const [page, now] = await Promise.all([store.commitments({ ...rest, limit, namespace }), store.now()]);
    return { ...page, rows: page.rows.map((row) => toView(row, now)) };
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
      const found = await store.get(namespace, checkedPart(id, "id", "options-invalid"));
      const { commitment, now, unreadable } = found;
      if (unreadable !== undefined) throw unreadableError(unreadable);
      return commitment && toView(commitment, now);
    },
    async list(query = {}) {
      checkOptions(query, { ...HELD_CHECKS, state: oneOf(...COMMITMENT_STATES) });
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
        refuseUnreadable(page);
        events.push(...page.rows);
        after = page.next;
      } while (after !== undefined);
      return events;
    },
    async resource(name) {
      checkedPart(name, "name", "options-invalid");
      const page = await store.resources({ namespace, name, limit: 1 });
      refuseUnreadable(page);
      return page.rows[0];
    },
    async listResources(page = {}) {
      checkOptions(page, PAGING_CHECKS);
      const { limit = PAGE, after } = page;
      return store.resources({ namespace, limit, after });
    },
  };
}

/** For reads that return everything: leaving out a row would make the answer wrong. */
function refuseUnreadable({ unreadable = [] }: Page<unknown>): void {
  const [first] = unreadable;
  if (first !== undefined) throw unreadableError(first);
}

function toView(commitment: KeptCommitment, now: number): CommitmentView {
  return {
    ...commitment,
    isElapsed: commitment.state === "held" && isElapsed(commitment, now),
    isErased: isErased(commitment),
  };
}

export function isLimit(name: string, value: unknown): void {
  wholeFrom(1)(name, value);
  if ((value as number) > MAX_PAGE)
    throw new NevertwiceError("options-invalid", `${name} is ${value}; it must be at most ${MAX_PAGE}.`);
}
