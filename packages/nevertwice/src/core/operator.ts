/** What operators and their tools do with single records: read, list, forget, and decide those whose outcome is unknown. */
import { endingFromDecision } from "./attempt.ts";
import { claimRound } from "./claim-round.ts";
import { NevertwiceError } from "./errors.ts";
import { checkedPart, type Identity, shortHash } from "./identity.ts";
import { type Check, checkOptions, isText, oneOf, wholeFrom } from "./option-checks.ts";
import { decodeOutcome, type Outcome } from "./outcome.ts";
import type { Decision, Policy } from "./policy.ts";
import { outcomeLimit, type Ports } from "./ports.ts";
import { checkedSubject, type Subject } from "./request.ts";
import { unavailable } from "./result.ts";
import { settleAbandon, settleCompletion } from "./settlement.ts";
import type { RecordState, Store, StoreRecord, UnreadableRecord } from "./store.ts";
import { callWithin, type Deadline } from "./store-call.ts";

/** A record as operators see it: everything except the token. Times are those of the store's clock. */
export interface RecordView {
  /** The full hash of the identity, which is the id of the record in the store. */
  readonly id: string;
  readonly keyHash: string;
  /** Absent after the record was forgotten. */
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
  /** The finished steps of work that is not completed, in order; absent if there are none. */
  readonly steps?: readonly StepView[];
}

/** A finished step as operators see it. */
export interface StepView {
  readonly name: string;
  readonly keptAt: number;
  readonly outcome: Outcome;
}

export interface ListOptions {
  readonly scope?: string | undefined;
  readonly state?: RecordState | undefined;
  readonly limit?: number | undefined;
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
}

export interface RecordPage {
  readonly records: readonly RecordView[];
  /** Records whose rows are damaged and cannot be read; absent if there are none. */
  readonly unreadable?: readonly UnreadableRecord[];
  readonly next: string | undefined;
}

export interface ForgetReport {
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
  resolve(subject: Subject & { readonly fence: number }, decision: Decision): Promise<boolean>;
  forgetOne(subject: SubjectAtFence): Promise<boolean>;
  forgetScope(scope: string): Promise<ForgetReport>;
  reopen(subject: SubjectAtFence): Promise<boolean>;
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
    const { scope, limit = PAGE, after } = options;
    if (limit > MAX_PAGE) {
      throw new NevertwiceError(
        "options-invalid",
        `limit is ${limit}; it must be a whole number from 1 to ${MAX_PAGE}.`,
      );
    }
    const list = requireMethod(store, "list");
    const page = await ask(({ signal }) => list({ namespace, scope, state, limit, after, signal }));
    return {
      records: page.records.map(toView),
      ...(page.unreadable !== undefined && { unreadable: page.unreadable }),
      next: page.next,
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

export function toView(record: StoreRecord): RecordView {
  const {
    parts,
    state,
    fence,
    number,
    hold,
    claimedAt,
    leaseLeftMs,
    completedAt,
    keptUntil,
    outcome,
    steps,
  } = record;
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
    ...(steps && { steps: steps.map((step) => ({ ...step, outcome: decodeOutcome(step.outcome) })) }),
  };
}
