/** What people and their tools do to single records: look, forget, and decide what is unknown. */
import { endingOfDecision } from "./attempt.ts";
import { type Bound, bounded } from "./calls.ts";
import { claimRound } from "./claiming.ts";
import { NevertwiceError } from "./errors.ts";
import { checkedPart, shortHash } from "./identity.ts";
import { decodeOutcome, type Outcome } from "./outcome.ts";
import { type Check, checkOptions, type Decision, isText, oneOf, type Policy, wholeFrom } from "./policy.ts";
import { outcomeLimit, type Ports } from "./ports.ts";
import { checkedSubject, type Subject } from "./request.ts";
import { unavailable } from "./result.ts";
import { settleAbandon, settleCompletion } from "./settling.ts";
import type { RecordState, Store, StoreRecord } from "./store.ts";

/** A record as people see it: everything but the token. Times are the store's clock. */
export interface RecordView {
  /** The whole hash of the identity, by which the store knows the record. */
  readonly id: string;
  readonly keyHash: string;
  /** Absent once the record was forgotten. */
  readonly operation: string | undefined;
  readonly scope: string | undefined;
  readonly key: string | undefined;
  readonly state: RecordState;
  readonly fence: number;
  readonly number: number;
  readonly held: boolean;
  readonly claimedAt: number;
  readonly leaseLeftMs: number;
  readonly completedAt: number | undefined;
  readonly keptUntil: number;
  readonly outcome: Outcome | undefined;
}

export interface ListOptions {
  readonly scope?: string | undefined;
  readonly state?: RecordState | undefined;
  readonly limit?: number | undefined;
  /** The `next` of the page before. */
  readonly after?: string | undefined;
}

export interface RecordPage {
  readonly records: readonly RecordView[];
  readonly next: string | undefined;
}

export interface ForgetReport {
  readonly forgotten: number;
  /** Records that could not be forgotten because their work is under way: ask again when it has ended. */
  readonly inFlight: number;
}

/** A subject as somebody saw it: with a fence, only if the record still has that. */
export type Seen = Subject & { readonly fence?: number | undefined };

export interface Operator {
  read(subject: Subject): Promise<RecordView | undefined>;
  list(options: ListOptions): Promise<RecordPage>;
  listUnknown(options: Omit<ListOptions, "state">): Promise<RecordPage>;
  resolve(subject: Subject & { readonly fence: number }, decision: Decision): Promise<boolean>;
  forgetOne(subject: Seen): Promise<boolean>;
  forgetScope(scope: string): Promise<ForgetReport>;
  reopen(subject: Seen): Promise<boolean>;
  probe(): Promise<void>;
}

const PAGE = 100;
const MAX_PAGE = 1_000;

const UNKNOWN_CHECKS: Readonly<Record<string, Check>> = {
  scope: (name, value) =>
    void checkedPart(value, name, value === "" || value === null ? "scope-missing" : "options-invalid"),
  limit: wholeFrom(1),
  after: isText,
};

const LIST_CHECKS: Readonly<Record<string, Check>> = {
  ...UNKNOWN_CHECKS,
  state: oneOf("pending", "lapsed", "completed", "released"),
};

export function createOperator(ports: Ports, namespace: string, policy: Policy): Operator {
  const { store } = ports;

  async function ask<T>(call: (bound: Bound) => Promise<T>): Promise<T> {
    try {
      return await bounded(ports, policy.storeTimeoutMs, call);
    } catch (error) {
      throw unavailable(error);
    }
  }

  async function pageOf(
    options: ListOptions,
    checks: typeof LIST_CHECKS,
    state?: RecordState,
  ): Promise<RecordPage> {
    checkOptions(options, checks);
    const { scope, limit = PAGE, after } = options;
    if (limit > MAX_PAGE) {
      throw new NevertwiceError(
        "options-invalid",
        `limit is ${limit}; it must be a whole number from 1 to ${MAX_PAGE}.`,
      );
    }
    const list = needed(store, "list");
    const page = await ask(({ signal }) => list({ namespace, scope, state, limit, after, signal }));
    return { records: page.records.map(toView), next: page.next };
  }

  async function recordOf(subject: Seen): Promise<StoreRecord | undefined> {
    const { id } = checkedSubject(subject, namespace);
    const record = await ask((bound) => store.read(id, bound));
    return subject.fence === undefined || subject.fence === record?.fence ? record : undefined;
  }

  async function forgetRecord({ id, fence }: StoreRecord, reopen = false): Promise<boolean> {
    const forget = needed(store, "forget");
    return ask(({ signal }) => forget({ id, fence, reopen, signal }));
  }

  return {
    async read(subject) {
      const { id } = checkedSubject(subject, namespace);
      const record = await ask((bound) => store.read(id, bound));
      return record && toView(record);
    },

    list(options) {
      return pageOf(options, LIST_CHECKS, options.state);
    },

    listUnknown(options) {
      return pageOf(options, UNKNOWN_CHECKS, "lapsed");
    },

    async resolve(subject, decision) {
      const identity = checkedSubject(subject, namespace);
      if (!Number.isSafeInteger(subject.fence)) {
        throw new NevertwiceError(
          "options-invalid",
          "fence is missing: give the fence that listUnknown, read or the unknown error showed.",
        );
      }
      const ending = endingOfDecision(decision, outcomeLimit(ports, policy));
      if (ending.kind === "abandon" && ending.as === "unrun") {
        throw new NevertwiceError(
          "options-invalid",
          'the decision\'s status must be "done", "failed" or "not-done".',
        );
      }
      if (ending.kind === "complete" && ending.notKept !== undefined) {
        throw new NevertwiceError("options-invalid", `the decision cannot be kept: ${ending.notKept}.`);
      }
      const call = {
        identity,
        fingerprint: undefined,
        policy,
        signal: undefined,
        shorten: undefined,
        onRenewed: undefined,
      };
      const { round, answer } = await claimRound(ports, call, subject.fence);
      if (answer.status === "unavailable") throw unavailable(answer.error);
      if (answer.status !== "new") return false;
      const settlement = { call, round, fence: answer.fence, isUnclaimed: false, startedAt: round.sentAt };
      const isDecided =
        ending.kind === "complete"
          ? DECIDED[(await settleCompletion(ports, settlement, ending)).status]
          : await settleAbandon(ports, settlement, ending);
      if (isDecided === undefined) throw unavailable(new Error("the decision is not confirmed yet"));
      return isDecided;
    },

    async forgetOne(subject) {
      const record = await recordOf(subject);
      return record !== undefined && forgetRecord(record);
    },

    async reopen(subject) {
      const record = await recordOf(subject);
      return record?.state === "completed" && forgetRecord(record, true);
    },

    async forgetScope(scope) {
      const list = needed(store, "list");
      let forgotten = 0;
      let inFlight = 0;
      let after: string | undefined;
      do {
        const page = await ask(({ signal }) => list({ namespace, scope, limit: PAGE, after, signal }));
        for (const record of page.records) {
          if (await forgetRecord(record)) forgotten++;
          else if ((await ask((bound) => store.read(record.id, bound))) !== undefined) inFlight++;
        }
        after = page.next;
      } while (after !== undefined);
      return { forgotten, inFlight };
    },

    async probe() {
      await ask((bound) => store.read(PROBE_ID, bound));
      await ask(async () => ports.requirement?.meet());
    },
  };
}

const DECIDED = {
  recorded: true,
  superseded: false,
  forgotten: false,
  overtaken: false,
  unanswered: undefined,
} as const;

/** No identity hashes to it. */
const PROBE_ID = "0".repeat(64);

function needed<Name extends "list" | "forget">(store: Store, name: Name): NonNullable<Store[Name]> {
  const method = store[name];
  if (method === undefined)
    throw new NevertwiceError("options-invalid", `this store has no ${name}, which this call needs.`);
  return method.bind(store) as NonNullable<Store[Name]>;
}

export function toView(record: StoreRecord): RecordView {
  const { parts, state, fence, number, hold, claimedAt, leaseLeftMs, completedAt, keptUntil, outcome } =
    record;
  return {
    id: record.id,
    keyHash: shortHash(record.id),
    operation: parts?.operation,
    scope: parts?.scope,
    key: parts?.key,
    state,
    fence,
    number,
    held: hold,
    claimedAt,
    leaseLeftMs,
    completedAt,
    keptUntil,
    outcome: outcome === undefined ? undefined : decodeOutcome(outcome),
  };
}
