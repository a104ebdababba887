/** A store whose every rule can be replaced by a wrong one. With the rules as they stand it keeps every guarantee. */
import type { Clock } from "../../src/core/clock.ts";
import {
  abandonRecord,
  claimRecord,
  completeRecord,
  forgetRecord,
  isExpired,
  type Kept,
  keepStepRecord,
  renewRecord,
  type Step,
} from "../../src/core/record.ts";
import { toDetails, viewOf } from "../../src/core/record-details.ts";
import type {
  AbandonAs,
  ListPage,
  ListRequest,
  NamespacePage,
  NamespacesRequest,
  Parts,
  PurgeReport,
  Store,
  UndecidedReport,
  UndecidedRequest,
} from "../../src/core/store.ts";
import {
  comparePlaces,
  countUndecided,
  fromCursor,
  isListed,
  namesAfter,
  toCursor,
} from "../../src/stores/listing.ts";

type Wakers = ReadonlySet<() => void>;

export interface Rules {
  readonly claim: typeof claimRecord<string>;
  readonly complete: typeof completeRecord<string>;
  readonly abandon: typeof abandonRecord<string>;
  readonly renew: typeof renewRecord<string>;
  readonly keepStep: typeof keepStepRecord<string>;
  readonly forget: typeof forgetRecord<string>;
  /** What `read` shows. */
  readonly read: (record: Kept, now: number) => ReturnType<typeof viewOf> | undefined;
  readonly nextFence: (after: number, now: number) => number;
  /** What a record is kept under. Only a claim knows the parts. */
  readonly keyOf: (id: string, parts?: Parts) => string;
  /** The outcome as it is kept, as a claim is answered with it, and as it is read. */
  readonly keepText: (outcome: string) => string;
  readonly answerText: (outcome: string) => string;
  readonly readText: (outcome: string) => string;
  readonly purge: (records: Map<string, Kept>, limit: number, now: number) => Promise<PurgeReport>;
  readonly list: (records: readonly Kept[], request: ListRequest, now: number) => ListPage;
  readonly undecided: (records: readonly Kept[], request: UndecidedRequest, now: number) => UndecidedReport;
  readonly namespaces: (records: readonly Kept[], request: NamespacesRequest) => NamespacePage;
  /** Makes a step that was decided wait before it is written, as if it were two. */
  readonly pause: (
    step: "claim" | "complete",
    found: Kept | undefined,
    now: number,
  ) => Promise<void> | undefined;
  /** Whether and whom a step wakes, once it is written. */
  readonly wake: (wakers: Wakers, step: "complete" | "forget" | "reopen" | AbandonAs) => void;
  /** Called before a step is written. */
  readonly beforeWrite: (wakers: Wakers) => Promise<void> | undefined;
}

export const RULES: Rules = {
  claim: claimRecord,
  complete: completeRecord,
  abandon: abandonRecord,
  renew: renewRecord,
  keepStep: keepStepRecord,
  forget: forgetRecord,
  read: (record, now) => (isExpired(record, now) ? undefined : toDetails(record, now)),
  nextFence: (after, now) => Math.max(after + 1, Math.floor(now * 1_000)),
  keyOf: (id) => id,
  keepText: (text) => text,
  answerText: (text) => text,
  readText: (text) => text,
  async purge(records, limit, now) {
    let removed = 0;
    for (const [key, record] of records) {
      if (!isExpired(record, now)) continue;
      if (removed === limit) return { removed, more: true };
      records.delete(key);
      removed++;
    }
    return { removed, more: false };
  },
  list(records, { limit, after, ...filter }, now) {
    const from = after === undefined ? undefined : fromCursor(after);
    const page = records
      .filter((record) => isListed(record, filter, now))
      .filter((record) => from === undefined || comparePlaces(from, record) < 0)
      .sort(comparePlaces);
    const shown = page.slice(0, limit);
    const last = page.length > limit ? shown.at(-1) : undefined;
    return { records: shown.map((record) => viewOf(record, now)), ...(last && { next: toCursor(last) }) };
  },
  undecided: (records, { namespace, limit }, now) =>
    countUndecided(records, { namespace, limit, now, isWhole: true }),
  namespaces: (records, { limit, after }) =>
    namesAfter([...new Set(records.flatMap(({ parts }) => parts?.namespace ?? []))], limit, after),
  pause: () => undefined,
  wake: (wakers) => {
    for (const waker of wakers) waker();
  },
  beforeWrite: () => undefined,
};

export function ruleStore(clock: Clock, broken: Partial<Rules> = {}): Store {
  const rules: Rules = { ...RULES, ...broken };
  const records = new Map<string, Kept>();
  const watchers = new Map<string, Set<() => void>>();
  let lastFence = 0;

  const nextFence = (after: number): number => {
    lastFence = rules.nextFence(Math.max(after, lastFence), clock.now());
    return lastFence;
  };
  const wakersOf = (id: string): Set<() => void> => watchers.get(id) ?? new Set();

  /** Writes the change, and then wakes the waiters. */
  async function apply(id: string, step: Step, wakes?: "complete" | AbandonAs): Promise<boolean> {
    if (step.write === undefined) return step.answer;
    const early = wakes && rules.beforeWrite(wakersOf(id));
    if (early) await early;
    records.set(rules.keyOf(id), step.write);
    if (wakes) rules.wake(wakersOf(id), wakes);
    return step.answer;
  }

  return {
    async claim(request) {
      const key = rules.keyOf(request.id, request.parts);
      const decide = () => rules.claim(records.get(key), request, clock.now(), nextFence);
      let { answer, write: next } = decide();
      const pause = rules.pause("claim", records.get(key), clock.now());
      if (pause !== undefined) {
        await pause;
        // Only what other tokens wrote meanwhile is overlooked: the repeat of a claim is another matter.
        if (records.get(key)?.token === request.token) ({ answer, write: next } = decide());
      }
      if (next !== undefined) records.set(key, next);
      if (answer.status !== "completed") return answer;
      return { ...answer, outcome: rules.answerText(answer.outcome) };
    },
    async complete(request) {
      const found = records.get(rules.keyOf(request.id));
      const kept = { ...request, outcome: rules.keepText(request.outcome) };
      const step = rules.complete(found, kept, clock.now());
      const pause = rules.pause("complete", found, clock.now());
      if (pause !== undefined) await pause;
      return apply(request.id, step, "complete");
    },
    async abandon({ id, token, as }) {
      return apply(id, rules.abandon(records.get(rules.keyOf(id)), token, as, clock.now()), as);
    },
    async renew({ id, token, leaseMs }) {
      return apply(id, rules.renew(records.get(rules.keyOf(id)), token, leaseMs, clock.now()));
    },
    async keepStep(request) {
      return apply(request.id, rules.keepStep(records.get(rules.keyOf(request.id)), request, clock.now()));
    },
    async read(id) {
      const record = records.get(rules.keyOf(id));
      const shown = record && rules.read(record, clock.now());
      return shown?.outcome === undefined ? shown : { ...shown, outcome: rules.readText(shown.outcome) };
    },
    keepsHistory: true,
    purge: (limit) => rules.purge(records, limit, clock.now()),
    async close() {
      records.clear();
    },
    async watch({ id, wake }) {
      const wakers = wakersOf(id);
      watchers.set(id, wakers.add(wake));
      return () => wakers.delete(wake);
    },
    async list(request) {
      return rules.list([...records.values()], request, clock.now());
    },
    listOrder: "newest-first",
    async undecided(request) {
      return rules.undecided([...records.values()], request, clock.now());
    },
    async namespaces(request) {
      return rules.namespaces([...records.values()], request);
    },
    async forget(request) {
      const { id, reopen } = request;
      const key = rules.keyOf(id);
      const step = rules.forget(records.get(key), request, clock.now());
      if (!step.answer) return false;
      if (step.write === undefined) records.delete(key);
      else records.set(key, step.write);
      rules.wake(wakersOf(id), reopen ? "reopen" : "forget");
      return true;
    },
  };
}
