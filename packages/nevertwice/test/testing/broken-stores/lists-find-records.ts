/** Stores whose lists are out of order or not about what was asked, and that miscount what waits for a decision. */
import { abandonRecord, isUndecided } from "../../../src/core/record.ts";
import type { ListRequest } from "../../../src/core/store.ts";
import { comparePlaces, isListed } from "../../../src/stores/listing.ts";
import { RULES, type Rules } from "../rule-store.ts";
import { type Fault, reading, type WrongRules } from "../wrong-rules.ts";

const NEWEST_FIRST = "a list shows the newest claim first";
const STABLE = "pages of a list stay as they are while new claims arrive";
const ONCE = "pages of a list show every record once";
const HELD_AND_LAPSED = "undecided counts the held keys that have lapsed, and no others";

/** A list that is not about all that was asked. */
const listing =
  (change: (request: ListRequest) => ListRequest): WrongRules =>
  () => ({ list: (records, request, now) => RULES.list(records, change(request), now) });

const counting =
  (undecided: Rules["undecided"]): WrongRules =>
  () => ({ undecided });

/** Each page begins at a position in the list. */
function byPosition(compare: typeof comparePlaces): WrongRules {
  return () => ({
    list(records, { limit, after = "0", ...filter }, now) {
      const all = records.filter((record) => isListed(record, filter, now)).sort(compare);
      const end = Number(after) + limit;
      const page = { records: RULES.list(all.slice(Number(after), end), { ...filter, limit }, now).records };
      return all.length > end ? { ...page, next: String(end) } : page;
    },
  });
}

export const listsFindRecords: readonly Fault[] = [
  {
    fault: "lists the oldest claim first",
    rules: () => ({
      list: (records, request, now) => {
        const all = records.filter((record) => isListed(record, request, now));
        const { records: oldest } = RULES.list(all, { ...request, after: undefined, limit: all.length }, now);
        const rest = [...oldest].reverse();
        const start = rest.findIndex(({ id }) => id === request.after) + 1;
        const page = rest.slice(start, start + request.limit);
        const isLast = start + request.limit >= rest.length;
        return isLast ? { records: page } : { records: page, next: page.at(-1)?.id };
      },
    }),
    caught: [NEWEST_FIRST, STABLE],
  },
  {
    fault: "leaves out the first record of every page but the first",
    rules: () => ({
      list: (records, request, now) => {
        const page = RULES.list(records, request, now);
        return request.after === undefined ? page : { ...page, records: page.records.slice(1) };
      },
    }),
    caught: [ONCE, STABLE],
  },
  { fault: "counts the pages of a list", rules: byPosition(comparePlaces), caught: [STABLE] },
  {
    fault: "lists all times",
    rules: listing(({ before: _, ...request }) => request),
    caught: ["a list before a time shows what was claimed until then"],
  },
  {
    fault: "lists every operation",
    rules: listing(({ operation: _, ...request }) => request),
    caught: ["a list by operation shows the records of that operation alone"],
  },
  {
    fault: "lists the keys that begin with the key",
    rules: () => ({
      list: (records, { key = "", ...request }, now) =>
        RULES.list(
          records.filter(({ parts }) => parts?.key.startsWith(key)),
          request,
          now,
        ),
    }),
    caught: ["a list by key shows the records with exactly that key"],
  },
  {
    fault: "shows the present time as the time that a record lapsed",
    rules: reading((shown, _, now) => (shown.state === "lapsed" ? { ...shown, lapsedAt: now } : shown)),
    caught: ["a lapsed record says when it lapsed"],
  },
  {
    fault: "leaves the lease of an abandoned record as it was",
    rules: () => ({
      abandon(found, token, as, now) {
        const step = abandonRecord(found, token, as, now);
        if (step.write === undefined || found === undefined) return step;
        return { ...step, write: { ...step.write, leaseEndsAt: found.leaseEndsAt } };
      },
    }),
    caught: ["a lapsed record says when it lapsed"],
  },
  {
    fault: "counts every lapsed key as undecided",
    rules: counting((records, request, now) =>
      RULES.undecided(
        records.map((record) => ({ ...record, hold: true })),
        request,
        now,
      ),
    ),
    caught: [HELD_AND_LAPSED],
  },
  {
    fault: "counts the held keys that are at work",
    rules: counting((records, request, now) =>
      RULES.undecided(
        records.map((record) => (record.state === "pending" ? { ...record, spent: true } : record)),
        request,
        now,
      ),
    ),
    caught: [HELD_AND_LAPSED],
  },
  {
    fault: "waits for the end of a lease that was given up",
    rules: counting((records, request, now) =>
      RULES.undecided(
        records.filter(({ spent }) => !spent),
        request,
        now,
      ),
    ),
    caught: [
      "undecided counts a held key that was abandoned as unknown at once",
      "undecided counts no further than it is told to",
      "undecided no longer counts a key that was decided",
    ],
  },
  {
    fault: "counts a held key while its retention lasts",
    rules: counting((records, request, now) =>
      RULES.undecided(
        records.filter(({ keptUntil }) => keptUntil > now),
        request,
        now,
      ),
    ),
    caught: ["undecided counts a held key past its retention"],
  },
  {
    fault: "says that it counted everything",
    rules: counting((records, request, now) => ({
      ...RULES.undecided(records, request, now),
      isComplete: true,
    })),
    caught: ["undecided counts no further than it is told to"],
  },
  {
    fault: "counts what it has once counted",
    rules: () => {
      const counted = new Set<string>();
      return {
        undecided(records, { namespace }, now) {
          for (const record of records)
            if (record.parts?.namespace === namespace && isUndecided(record, now)) counted.add(record.id);
          const report = RULES.undecided(records, { namespace, limit: 2 }, now);
          return { ...report, count: counted.size > 2 ? report.count : counted.size };
        },
      };
    },
    caught: ["undecided no longer counts a key that was decided"],
  },
  {
    fault: "lists a namespace for each of its records",
    rules: () => ({
      namespaces: (records, { limit, after = "0" }) => {
        const end = Number(after) + limit;
        const namespaces = records
          .slice(Number(after), end)
          .flatMap(({ parts }) => (parts === undefined ? [] : [parts.namespace]));
        return records.length > end ? { namespaces, next: String(end) } : { namespaces };
      },
    }),
    caught: ["every namespace that has records is listed once"],
  },
];
