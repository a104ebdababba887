/** Different keys never share a record, however alike they look, and operators find each by its parts. */
import type { ListRequest, Parts, Store, StoreRecord } from "../../core/store.ts";
import { expect } from "./expect.ts";
import type { GuaranteeCases } from "./trial.ts";
import { type CaseWork, randomId, SHORT_MS, tally } from "./work.ts";

/** Each pair looks like one key to a store that joins the parts with a separator. */
const CUT_ELSEWHERE: readonly Partial<Parts>[] = [":", "/", "|", ",", "\n", "\u0000"].flatMap((mark) => [
  { scope: `a${mark}b`, operation: "c" },
  { scope: "a", operation: `b${mark}c` },
]);

const AWKWARD = "O'Neil \"%_\\ \u0000\t\r\n{}[]$1 ?, 'x'; --\u00e9e\u0301\u{1f4b3}\u2028\uffff ";

async function claimEach(works: readonly CaseWork[]): Promise<void> {
  const answers = await Promise.all(works.map((work) => work.attempt().claim()));
  expect("the first claims of as many keys", tally(answers), { new: works.length });
}

async function listed(store: Store, request: ListRequest): Promise<readonly StoreRecord[]> {
  const records: StoreRecord[] = [];
  let after: string | undefined;
  do {
    const page = await store.list?.({ ...request, after });
    expect("how many a page has", (page?.records.length ?? 0) <= request.limit, true);
    records.push(...(page?.records ?? []));
    after = page?.next;
  } while (after !== undefined);
  return records;
}

const toIds = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id).sort();
const ownNamespace = () => `nevertwice-cases ${crypto.randomUUID()}`;

export const identitiesApart: GuaranteeCases = {
  "ids that differ in one digit are different keys": {
    why: "A store that cuts an id short, or looks at a part of it, answers one caller with another's outcome.",
    async check({ identified }) {
      const id = randomId();
      const changed = (at: number) => id.slice(0, at) + (id[at] === "0" ? "1" : "0") + id.slice(at + 1);
      await claimEach([id, changed(0), changed(31), changed(32), changed(63)].map(identified));
    },
  },
  "keys that differ in case, in spaces or in Unicode form are different keys": {
    why: "Collations treat them as equal, and their owners do not.",
    async check({ another }) {
      const key = `Caf\u00e9 ${crypto.randomUUID()}`;
      const alike = [key, key.toLowerCase(), `${key} `, ` ${key}`, key.normalize("NFD"), `${key}\u200b`];
      await claimEach(alike.map((each) => another({ key: each })));
    },
  },
  "parts that read the same when joined are different keys": {
    why: "One tenant could choose a key that equals another tenant's.",
    async check({ another }) {
      const key = crypto.randomUUID();
      await claimEach(CUT_ELSEWHERE.map((parts) => another({ ...parts, key })));
    },
  },
  "parts come back as they were given": {
    why: "Operators search for a key by its parts, and a well-formed string may contain any character.",
    async check({ another }) {
      const key = `${AWKWARD}${crypto.randomUUID()}`;
      const work = another({ namespace: AWKWARD, scope: AWKWARD, operation: AWKWARD, key });
      await work.begin();
      expect("the record", await work.record(), { parts: work.parts });
    },
  },
  "parts of 1,024 bytes each come back as they were given": {
    why: "That is the limit of a part, and a shorter column would cut it or refuse the claim.",
    async check({ another }) {
      const long = "\u00e9".repeat(512);
      const key = crypto.randomUUID().padEnd(1_024, "k");
      const work = another({ namespace: long, scope: long, operation: long, key });
      await work.begin();
      expect("the record", await work.record(), { parts: work.parts });
    },
  },
  "keys that are completed at once answer with their own outcomes": {
    why: "Outcomes that are written in one batch must not be mixed up.",
    async check({ another }) {
      const works = Array.from({ length: 50 }, () => another());
      const owners = await Promise.all(works.map((work) => work.begin()));
      await Promise.all(owners.map((owner, i) => owner.complete(`outcome ${i}`)));
      const answers = await Promise.all(works.map((work) => work.attempt().claim()));
      answers.forEach((answer, i) => {
        expect(`a claim of key ${i}`, answer, { status: "completed", outcome: `outcome ${i}` });
      });
    },
  },
  "a list shows the records of its namespace alone": {
    needs: ["list"],
    why: "An application must not see the keys of another.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const ours = [another({ namespace }), another({ namespace })];
      await claimEach([
        ...ours,
        another({ namespace: `${namespace} ` }),
        another({ namespace: ownNamespace() }),
      ]);
      expect("the ids listed", toIds(await listed(store, { namespace, limit: 10 })), toIds(ours));
    },
  },
  "a list by scope shows the records of that scope alone": {
    needs: ["list"],
    why: "A scope is a tenant or a person, who must not see the keys of another.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const ours = [another({ namespace, scope: "ours" }), another({ namespace, scope: "ours" })];
      const theirs = ["theirs", "our", "ours ", ""].map((scope) => another({ namespace, scope }));
      await claimEach([...ours, ...theirs]);
      const records = await listed(store, { namespace, scope: "ours", limit: 10 });
      expect("the ids listed", toIds(records), toIds(ours));
    },
  },
  "a list by state shows the records in that state alone": {
    needs: ["list"],
    why: "Operators look for lapsed records, and must find all of them and no others.",
    async check({ store, another, outlast }) {
      const namespace = ownNamespace();
      const lapsed = another({ namespace });
      await lapsed.begin({ leaseMs: SHORT_MS });
      await outlast(SHORT_MS);
      const pending = another({ namespace });
      await pending.begin();
      const completed = another({ namespace });
      await (await completed.begin()).complete();
      const released = another({ namespace });
      await (await released.begin()).abandon("released");
      const works = { pending, lapsed, completed, released };
      for (const state of ["pending", "lapsed", "completed", "released"] as const) {
        const records = await listed(store, { namespace, state, limit: 10 });
        expect(`the ids listed as ${state}`, toIds(records), [works[state].id]);
      }
    },
  },
};
