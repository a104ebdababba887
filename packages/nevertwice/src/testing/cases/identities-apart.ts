/** Two keys that are not the same, however alike, never see one another; and people find each by its own parts. */
import { randomUUID } from "node:crypto";
import type { ListRequest, Parts, Store, StoreRecord } from "../../core/store.ts";
import { expect } from "./expect.ts";
import type { Cases } from "./trial.ts";
import { randomId, SHORT_MS, tally, type Work } from "./work.ts";

/** Each pair is one key to a store that joins the parts with a character and compares the text. */
const CUT_ELSEWHERE: readonly Partial<Parts>[] = [":", "/", "|", ",", "\n", "\u0000"].flatMap((mark) => [
  { scope: `a${mark}b`, operation: "c" },
  { scope: "a", operation: `b${mark}c` },
]);

const AWKWARD = "O'Neil \"%_\\ \u0000\t\r\n{}[]$1 ?, 'x'; --\u00e9e\u0301\u{1f4b3}\u2028\uffff ";

async function claimEach(works: readonly Work[]): Promise<void> {
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

const idsOf = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id).sort();
const ownNamespace = () => `nevertwice-cases ${randomUUID()}`;

export const identitiesApart: Cases = {
  "ids that differ in one digit are different keys": {
    why: "A store that cuts an id short, or looks at a part of it, answers one caller with another's outcome.",
    async check({ identified }) {
      const id = randomId();
      const changed = (at: number) => id.slice(0, at) + (id[at] === "0" ? "1" : "0") + id.slice(at + 1);
      await claimEach([id, changed(0), changed(31), changed(32), changed(63)].map(identified));
    },
  },
  "keys that differ in case, in spaces or in Unicode form are different keys": {
    why: "Collations call them equal. Their owners do not.",
    async check({ another }) {
      const key = `Caf\u00e9 ${randomUUID()}`;
      const alike = [key, key.toLowerCase(), `${key} `, ` ${key}`, key.normalize("NFD"), `${key}\u200b`];
      await claimEach(alike.map((each) => another({ key: each })));
    },
  },
  "parts that read the same when joined are different keys": {
    why: "One tenant could name a key so that it is another tenant's.",
    async check({ another }) {
      const key = randomUUID();
      await claimEach(CUT_ELSEWHERE.map((parts) => another({ ...parts, key })));
    },
  },
  "parts come back as they were given": {
    why: "People look for a key by what they called it, and a well-formed string may hold any character.",
    async check({ another }) {
      const key = `${AWKWARD}${randomUUID()}`;
      const work = another({ namespace: AWKWARD, scope: AWKWARD, operation: AWKWARD, key });
      await work.begin();
      expect("the record", await work.record(), { parts: work.parts });
    },
  },
  "parts of 1,024 bytes each come back as they were given": {
    why: "That is the limit of a part; a column that is shorter cuts it or refuses the claim.",
    async check({ another }) {
      const long = "\u00e9".repeat(512);
      const key = randomUUID().padEnd(1_024, "k");
      const work = another({ namespace: long, scope: long, operation: long, key });
      await work.begin();
      expect("the record", await work.record(), { parts: work.parts });
    },
  },
  "keys that are completed at once answer with their own outcomes": {
    why: "What goes to the store together in one write must not be handed out crosswise.",
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
    why: "Another application's keys are none of its business.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const ours = [another({ namespace }), another({ namespace })];
      await claimEach([
        ...ours,
        another({ namespace: `${namespace} ` }),
        another({ namespace: ownNamespace() }),
      ]);
      expect("the ids listed", idsOf(await listed(store, { namespace, limit: 10 })), idsOf(ours));
    },
  },
  "a list by scope shows the records of that scope alone": {
    needs: ["list"],
    why: "A scope is a tenant or a person, and must not be shown another's keys.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const ours = [another({ namespace, scope: "ours" }), another({ namespace, scope: "ours" })];
      const theirs = ["theirs", "our", "ours ", ""].map((scope) => another({ namespace, scope }));
      await claimEach([...ours, ...theirs]);
      const records = await listed(store, { namespace, scope: "ours", limit: 10 });
      expect("the ids listed", idsOf(records), idsOf(ours));
    },
  },
  "a list by state shows the records in that state alone": {
    needs: ["list"],
    why: "Operators look for what lapsed, and must find all of it and nothing else.",
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
        expect(`the ids listed as ${state}`, idsOf(records), [works[state].id]);
      }
    },
  },
  "pages of a list show every record once": {
    needs: ["list"],
    why: "A record between two pages would never be seen by anyone.",
    async check({ store, another }) {
      const namespace = ownNamespace();
      const works = Array.from({ length: 11 }, () => another({ namespace }));
      await claimEach(works);
      expect("the ids of all pages", idsOf(await listed(store, { namespace, limit: 4 })), idsOf(works));
    },
  },
};
