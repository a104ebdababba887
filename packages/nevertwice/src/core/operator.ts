/** What operators and their tools do with single records: read, list, forget, and decide those whose outcome is unknown. */

import { claimRound } from "./claim-round.ts";
import { endingFromDecision } from "./ending.ts";
import { NevertwiceError } from "./errors.ts";
import { checkedPart, type Identity } from "./identity.ts";
import { type Key, keyText } from "./key.ts";
import { type Check, checkOptions, isText, oneOf, wholeFrom } from "./option-checks.ts";
import type { Decision, Policy } from "./policy.ts";
import { outcomeLimit, type Ports } from "./ports.ts";
import { type RecordView, toView } from "./record-view.ts";
import { checkedSubject, type Subject } from "./request.ts";
import { unavailable } from "./result.ts";
import { settleAbandon, settleCompletion } from "./settlement.ts";
import type {
  ListOrder,
  RecordState,
  Store,
  StoreRecord,
  UndecidedReport,
  UnreadableRecord,
} from "./store.ts";
import { callWithin, type Deadline } from "./store-call.ts";

/**
 * Which records `guard.list` returns. Without options it returns all records of the namespace, page by page.
 */
export interface ListOptions {
  /** Only records of this scope. */
  readonly scope?: string | undefined;
  /** Only records of this operation. */
  readonly operation?: string | undefined;
  /** The exact key. */
  readonly key?: string | Key | undefined;
  /** Only records in this state. */
  readonly state?: RecordState | undefined;
  /** Only records that were claimed in this millisecond of the store's clock or earlier. */
  readonly before?: number | undefined;
  /**
   * The most records on a page.
   * @default 100
   */
  readonly limit?: number | undefined;
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
}

/** One page of records. */
export interface RecordPage {
  /** The records of this page. */
  readonly records: readonly RecordView[];
  /** Records whose rows are damaged and cannot be read; absent if there are none. */
  readonly unreadable?: readonly UnreadableRecord[];
  /** Undefined on the last page. A page that has it may be empty: more records are left to look at. */
  readonly next: string | undefined;
  /** `newest-first`, by the time of the claim; or `none` on stores that have no index for it. */
  readonly order: ListOrder;
}

/** What `guard.forget` did for several records. */
export interface ForgetReport {
  /** How many records were forgotten. */
  readonly forgotten: number;
  /** Records that could not be forgotten because their work is still running: try again when it has ended. */
  readonly inFlight: number;
}

/** A subject with the fence that the operator saw. If a fence is given, the call acts only if the record still has it. */
export type SubjectAtFence = Subject & { readonly fence?: number | undefined };

export interface Operator {
  read(subject: Subject): Promise<RecordView | undefined>;
  list(options: ListOptions): Promise<RecordPage>;
  listUnknown(options: Omit<ListOptions, "state">): Promise<RecordPage>;
  undecided(): Promise<UndecidedReport | undefined>;
  resolve(subject: Subject & { readonly fence: number }, decision: Decision): Promise<boolean>;
  forgetOne(subject: SubjectAtFence): Promise<boolean>;
  forgetScope(scope: string): Promise<ForgetReport>;
  reopen(subject: SubjectAtFence): Promise<boolean>;
  probe(): Promise<void>;
}

const PAGE = 100;
const MAX_PAGE = 1_000;
/** Beyond this, nobody needs to know how many more there are. */
const MAX_UNDECIDED = 10_000;

const UNKNOWN_CHECKS: Readonly<Record<string, Check>> = {
  scope: (name, value) =>
    void checkedPart(value, name, value === "" || value === null ? "scope-missing" : "options-invalid"),
  operation: (name, value) => void checkedPart(value, name, "options-invalid"),
  key: (name, value) => void checkedPart(keyText(value), name, "key-invalid"),
  before: wholeFrom(0),
  limit: wholeFrom(1),
  after: isText,
};

const LIST_CHECKS: Readonly<Record<string, Check>> = {
  ...UNKNOWN_CHECKS,
  state: oneOf("pending", "lapsed", "completed", "released"),
};

export function createOperator(ports: Ports, namespace: string, policy: Policy): Operator {
  const { store } = ports;

  /** `identity` is given by calls about one key, for the error. */
  async function ask<T>(call: (deadline: Deadline) => Promise<T>, identity?: Identity): Promise<T> {
    const startedAt = ports.timer.now();
    try {
      return await callWithin(ports, policy.storeTimeoutMs, call);
    } catch (error) {
      const waitedMs = Math.round(ports.timer.now() - startedAt);
      throw unavailable(error, { waitedMs, identity, advice: "Try again." });
    }
  }

  async function readPage(
    options: ListOptions,
    checks: typeof LIST_CHECKS,
    state?: RecordState,
  ): Promise<RecordPage> {
    checkOptions(options, checks);
    const { scope, operation, before, limit = PAGE, after } = options;
    const key = keyText(options.key) as string | undefined;
    if (limit > MAX_PAGE) {
      throw new NevertwiceError(
        "options-invalid",
        `limit is ${limit}; it must be a whole number from 1 to ${MAX_PAGE}.`,
      );
    }
    const list = requireMethod(store, "list");
    const page = await ask(({ signal }) =>
      list({ namespace, scope, operation, key, state, before, limit, after, signal }),
    );
    return {
      records: page.records.map(toView),
      ...(page.unreadable !== undefined && { unreadable: page.unreadable }),
      next: page.next,
      order: store.listOrder ?? "none",
    };
  }

  async function findRecord(subject: SubjectAtFence): Promise<StoreRecord | undefined> {
    const identity = checkedSubject(subject, namespace);
    const record = await ask((deadline) => store.read(identity.id, deadline), identity);
    return subject.fence === undefined || subject.fence === record?.fence ? record : undefined;
  }

  async function forgetRecord({ id, fence }: StoreRecord, reopen = false): Promise<boolean> {
    const forget = requireMethod(store, "forget");
    return ask(({ signal }) => forget({ id, fence, reopen, signal }));
  }

  return {
    async read(subject) {
      const identity = checkedSubject(subject, namespace);
      const record = await ask((deadline) => store.read(identity.id, deadline), identity);
      return record && toView(record);
    },

    list(options) {
      return readPage(options, LIST_CHECKS, options.state);
    },

    listUnknown(options) {
      return readPage(options, UNKNOWN_CHECKS, "lapsed");
    },

    async undecided() {
      const request = { namespace, limit: MAX_UNDECIDED };
      return store.undecided && ask(async ({ signal }) => store.undecided?.({ ...request, signal }));
    },

    async resolve(subject, decision) {
      const identity = checkedSubject(subject, namespace);
      if (!Number.isSafeInteger(subject.fence)) {
        throw new NevertwiceError(
          "options-invalid",
          "fence is missing: give the fence that listUnknown, read or the unknown error showed.",
        );
      }
      const ending = endingFromDecision(decision, outcomeLimit(ports, policy));
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
        onRenewed: undefined,
      };
      const { round, answer } = await claimRound(ports, call, subject.fence);
      const advice = "Nothing was decided; try again.";
      if (answer.status === "unavailable")
        throw unavailable(answer.error, { waitedMs: answer.waitedMs, identity, advice });
      if (answer.status !== "new") return false;
      const settlement = { call, round, fence: answer.fence, isUnclaimed: false, startedAt: round.sentAt };
      const isDecided =
        ending.kind === "complete"
          ? DECIDED[(await settleCompletion(ports, settlement, ending)).status]
          : await settleAbandon(ports, settlement, ending);
      if (isDecided === undefined)
        throw unavailable(new Error("it has not confirmed the decision yet"), {
          identity,
          advice: "Read the record to see whether it was decided.",
        });
      return isDecided;
    },

    async forgetOne(subject) {
      const record = await findRecord(subject);
      return record !== undefined && forgetRecord(record);
    },

    async reopen(subject) {
      const record = await findRecord(subject);
      return record?.state === "completed" && forgetRecord(record, true);
    },

    async forgetScope(scope) {
      const list = requireMethod(store, "list");
      let forgotten = 0;
      let inFlight = 0;
      let after: string | undefined;
      const unreadable = new Set<string>();
      do {
        const page = await ask(({ signal }) => list({ namespace, scope, limit: PAGE, after, signal }));
        for (const record of page.records) {
          if (await forgetRecord(record)) forgotten++;
          else if ((await ask((deadline) => store.read(record.id, deadline))) !== undefined) inFlight++;
        }
        for (const { id } of page.unreadable ?? []) unreadable.add(id);
        after = page.next;
      } while (after !== undefined);
      if (unreadable.size > 0) throw notForgotten(unreadable);
      return { forgotten, inFlight };
    },

    async probe() {
      await ask((deadline) => store.read(PROBE_ID, deadline));
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

/** It cannot be read which scope these records belong to, so the caller must not be told that all of its records are gone. */
function notForgotten(ids: ReadonlySet<string>): NevertwiceError {
  return new NevertwiceError(
    "store-unsafe",
    `${ids.size} damaged records could not be forgotten, since their scope cannot be read. All others of this scope were. Remove these by hand: ${[...ids].slice(0, 10).join(", ")}`,
  );
}

/** An id that no identity hashes to. */
const PROBE_ID = "0".repeat(64);

function requireMethod<Name extends "list" | "forget">(store: Store, name: Name): NonNullable<Store[Name]> {
  const method = store[name];
  if (method === undefined)
    throw new NevertwiceError(
      "options-invalid",
      `this store has no ${name}, which this call needs. Every store of nevertwice has it.`,
    );
  return method.bind(store) as NonNullable<Store[Name]>;
}
