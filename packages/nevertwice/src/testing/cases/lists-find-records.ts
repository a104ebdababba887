/** Operators find records: in order, by each of their parts, by time, and those that wait for a decision. */
import type { ListRequest, Store, StoreRecord, UndecidedReport } from "../../core/store.ts";
import { about, between, expect } from "./expect.ts";
import { type GuaranteeCases, ROUNDING_MS, type Trial } from "./trial.ts";
import { type CaseWork, SHORT_MS, type Terms } from "./work.ts";

const ownNamespace = () => `nevertwice-cases ${crypto.randomUUID()}`;

/** More pages than the cases need, also on a store that contains other records. */
const MAX_PAGES = 10_000;
const COUNTED = 1_000;

/** The records of every page. */
async function listed(store: Store, request: ListRequest): Promise<readonly StoreRecord[]> {
  const records: StoreRecord[] = [];
  let after = request.after;
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await store.list?.({ ...request, after });
    expect("how many a page has", page?.records.length, between(0, request.limit));
    records.push(...(page?.records ?? []));
    after = page?.next;
    if (after === undefined) break;
  }
  return records;
}

/**
 * Begins an attempt with a short lease. Returns when it lapses, by the store's clock, for the time of its claim. A claim that
 * was repeated had its lease restarted later, but not later than its answer.
 */
async function beginShort(work: CaseWork, terms: Terms = {}) {
  const start = performance.now();
  await work.begin({ ...terms, leaseMs: SHORT_MS });
  const latest = performance.now() - start + ROUNDING_MS;
  return (claimedAt: number) => between(claimedAt + SHORT_MS - 2, claimedAt + SHORT_MS + latest);
}

const toIds = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id);
const toSortedIds = (records: readonly { readonly id: string }[]) => toIds(records).sort();

/** Claims keys one after another, at different times. */
async function claimInTurn({ another, pass }: Trial, namespace: string, count: number) {
  const works: CaseWork[] = [];
  for (let i = 0; i < count; i++) {
    const work = another({ namespace });
    await work.begin();
    await pass(SHORT_MS);
    works.push(work);
  }
  return works;
}

function undecided(store: Store, namespace: string, limit = COUNTED): Promise<UndecidedReport | undefined> {
  return store.undecided?.({ namespace, limit }) ?? Promise.resolve(undefined);
}

export const listsFindRecords: GuaranteeCases = {
  "a list shows the newest claim first": {
    needs: ["list", "order"],
    why: "Operators look at what just happened, and would otherwise have to read every page to find it.",
    async check(trial) {
      const namespace = ownNamespace();
      const [first, second, third] = await claimInTurn(trial, namespace, 3);
      const ids = toIds(await listed(trial.store, { namespace, limit: 10 }));
      expect("the ids listed", ids, [third?.id, second?.id, first?.id]);
    },
  },
  "pages of a list stay as they are while new claims arrive": {
    needs: ["list", "order"],
    why: "On a busy store every page would repeat records of the page before.",
    async check(trial) {
      const namespace = ownNamespace();
      const works = await claimInTurn(trial, namespace, 4);
      const page = await trial.store.list?.({ namespace, limit: 2 });
      await claimInTurn(trial, namespace, 3);
      const rest = await listed(trial.store, { namespace, limit: 2, after: page?.next });
      expect("the ids listed", toIds([...(page?.records ?? []), ...rest]), toIds(works).reverse());
    },
  },
  "pages of a list show every record once": {
    needs: ["list"],
    why: "An operator would never see a record that falls between two pages.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const works = Array.from({ length: 11 }, () => another({ namespace }));
      await Promise.all(works.map((work) => work.begin()));
      const records = await listed(store, { namespace, limit: 4 });
      expect("the ids of all pages", toSortedIds(records), toSortedIds(works));
    },
  },
  "a list before a time shows what was claimed until then": {
    needs: ["list"],
    why: "Operators look at the time of an incident.",
    async check(trial) {
      const namespace = ownNamespace();
      const [first, second] = (await claimInTurn(trial, namespace, 3)) as [CaseWork, CaseWork];
      const { claimedAt } = await second.record();
      const records = await listed(trial.store, { namespace, before: Math.ceil(claimedAt), limit: 10 });
      expect("the ids listed", toSortedIds(records), toSortedIds([first, second]));
    },
  },
  "a list by operation shows the records of that operation alone": {
    needs: ["list"],
    why: "Operators look for one kind of work.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const ours = [another({ namespace }), another({ namespace, scope: "s" })];
      const theirs = ["prov", "prove ", "Prove"].map((operation) => another({ namespace, operation }));
      for (const work of [...ours, ...theirs]) await work.begin();
      const records = await listed(store, { namespace, operation: "prove", limit: 10 });
      expect("the ids listed", toSortedIds(records), toSortedIds(ours));
    },
  },
  "a list by key shows the records with exactly that key": {
    needs: ["list"],
    why: "A customer names an order, and the operator knows neither its operation nor its scope.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const key = `"O'Neil", \\ 100%_\u2028\u{1f4b3}`;
      const ours = [
        another({ namespace, key }),
        another({ namespace, key, scope: "s" }),
        another({ namespace, key, operation: "o" }),
      ];
      const others = [`${key}2`, `2${key}`, key.slice(1), key.slice(0, -2)];
      const theirs = others.map((other) => another({ namespace, key: other }));
      for (const work of [...ours, ...theirs]) await work.begin();
      const records = await listed(store, { namespace, key, limit: 10 });
      expect("the ids listed", toSortedIds(records), toSortedIds(ours));
    },
  },
  "a lapsed record says when it lapsed": {
    why: "The longer an outcome is unknown, the more urgent is the decision.",
    async check({ another, outlast }) {
      const lapsed = another();
      const atLeaseEnd = await beginShort(lapsed);
      const abandoned = another();
      await (await abandoned.begin()).abandon("unknown");
      const early = await abandoned.record();
      await outlast(3 * SHORT_MS);
      const { claimedAt, lapsedAt } = await lapsed.record();
      expect("when the record lapsed", lapsedAt, atLeaseEnd(claimedAt));
      const late = await abandoned.record();
      expect("when the abandoned record lapsed", late.lapsedAt, about(early.lapsedAt ?? Number.NaN, 2));
    },
  },
  "undecided counts the held keys that have lapsed, and no others": {
    needs: ["undecided"],
    why: "Somebody is paged for each of them: one too many is a false alarm, one too few waits for ever.",
    async check({ store, another, outlast }) {
      const namespace = ownNamespace();
      const theirs = another({ namespace: ownNamespace() });
      const waiting = another({ namespace });
      await theirs.begin({ leaseMs: SHORT_MS, hold: true });
      const atLeaseEnd = await beginShort(waiting, { hold: true });
      await another({ namespace }).begin({ leaseMs: SHORT_MS });
      await (await another({ namespace }).begin({ leaseMs: SHORT_MS, hold: true })).complete();
      await outlast(3 * SHORT_MS);
      await another({ namespace }).begin({ hold: true });
      const { claimedAt } = await waiting.record();
      expect("the report", await undecided(store, namespace), {
        count: 1,
        oldestLapsedAt: atLeaseEnd(claimedAt),
      });
    },
  },
  "undecided counts a held key that was abandoned as unknown at once": {
    needs: ["undecided"],
    why: "Its outcome is unknown from that moment on.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      await (await another({ namespace }).begin({ hold: true })).abandon("unknown");
      expect("the report", await undecided(store, namespace), { count: 1 });
    },
  },
  "undecided counts a held key past its retention": {
    needs: ["undecided"],
    why: "It is kept until it is decided.",
    async check({ store, another, outlast }) {
      const namespace = ownNamespace();
      await another({ namespace }).begin({ hold: true, leaseMs: SHORT_MS, retentionMs: SHORT_MS });
      await outlast(2 * SHORT_MS);
      expect("the report", await undecided(store, namespace), { count: 1 });
    },
  },
  "undecided counts no further than it is told to": {
    needs: ["undecided"],
    why: "A count of millions would delay the claims behind it.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      for (let i = 0; i < 3; i++)
        await (await another({ namespace }).begin({ hold: true })).abandon("unknown");
      const report = await undecided(store, namespace, 2);
      expect("the report", report, { count: 2, isComplete: false });
    },
  },
  "undecided no longer counts a key that was decided": {
    needs: ["undecided"],
    why: "The alarm must end when the work is done.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const works = [another({ namespace }), another({ namespace })];
      const fences: number[] = [];
      for (const work of works) {
        const owner = await work.begin({ hold: true });
        await owner.abandon("unknown");
        fences.push(owner.fence);
      }
      expect("the report before", await undecided(store, namespace), { count: 2 });
      const [done, notDone] = works.map((work) => work.attempt());
      await done?.claim({ takeover: fences[0] as number });
      await done?.complete();
      await notDone?.claim({ takeover: fences[1] as number });
      await notDone?.abandon("released");
      expect("the report after", await undecided(store, namespace), { count: 0 });
    },
  },
  "every namespace that has records is listed once": {
    needs: ["namespaces"],
    why: "An operator cannot look into an application whose name is not shown.",
    async check({ store, another }) {
      const ours = [ownNamespace(), `${ownNamespace()}","`, `${ownNamespace()},`];
      for (const namespace of [...ours, ...ours]) await another({ namespace }).begin();
      const found: string[] = [];
      let after: string | undefined;
      for (let pages = 0; pages < MAX_PAGES; pages++) {
        const page = await store.namespaces?.({ limit: 2, after });
        expect("how many a page has", page?.namespaces.length, between(0, 2));
        found.push(...(page?.namespaces ?? []));
        after = page?.next;
        if (after === undefined) break;
      }
      expect("the namespaces listed", found.filter((name) => ours.includes(name)).sort(), ours.sort());
    },
  },
};
