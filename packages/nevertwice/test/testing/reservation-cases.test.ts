/** Tests the published cases of reservation stores: each kind of broken store fails a case, which says why. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { Answer } from "../../src/reservations/answer.ts";
import { memoryReservations } from "../../src/reservations/memory.ts";
import type { Page, ReservationStore } from "../../src/reservations/store.ts";
import { reservationCases } from "../../src/testing/index.ts";
import { manualClock } from "../../src/testing/manual-clock.ts";

type Break = (sound: ReservationStore) => Partial<ReservationStore>;

interface Broken {
  /** The case that must fail. */
  readonly fails: string;
  readonly breaks: Break;
}

const reversed = <Row>({ rows, ...page }: Page<Row>): Page<Row> => ({ ...page, rows: [...rows].reverse() });

const BROKEN: Readonly<Record<string, Broken>> = {
  "forgets the keys of actions": {
    fails: "a retry of any action with its key gets the same answer, and the action happens once",
    breaks: ({ transact }) => ({
      transact: (group, rules) =>
        transact(
          group.map((request) => ({ ...request, keyId: randomUUID() })),
          rules,
        ),
    }),
  },
  "answers without writing": {
    fails: "a hold is placed, read back, and confirmed once",
    breaks: () => ({ transact: (group, rules) => memoryReservations().transact(group, rules) }),
  },
  "carries out each action of a group alone": {
    fails:
      "a group with many keys and resources is one transaction, in which each action sees the earlier ones",
    breaks: ({ transact }) => ({
      async transact(group, rules) {
        const answers: Answer[] = [];
        for (const request of group) answers.push(...(await transact([request], rules)));
        return answers;
      },
    }),
  },
  "folds the names of resources": {
    fails: "resources and requesters are compared byte by byte, and read back unchanged",
    breaks: ({ transact }) => ({
      transact: (group, rules) =>
        transact(
          group.map((request) => {
            const { resource } = request.parameters;
            if (typeof resource !== "string") return request;
            return { ...request, parameters: { ...request.parameters, resource: resource.toLowerCase() } };
          }),
          rules,
        ),
    }),
  },
  "shows commitments of other namespaces": {
    fails: "namespaces are separate: the same key and resource in two namespaces do not collide",
    breaks({ transact, get }) {
      const namespaces = new Set<string>();
      return {
        transact(group, rules) {
          namespaces.add(rules.namespace);
          return transact(group, rules);
        },
        async get(namespace, id) {
          const found = await Promise.all([...namespaces].map((name) => get(name, id)));
          return found.find(({ commitment }) => commitment !== undefined) ?? get(namespace, id);
        },
      };
    },
  },
  "finds the newest elapsed holds first": {
    fails: "elapsed holds are found oldest first, and swept once",
    breaks: ({ elapsed }) => ({ elapsed: async (...asked) => [...(await elapsed(...asked))].reverse() }),
  },
  "purges nothing": {
    fails: "purge removes keys past their time, up to the limit, and no other keys or commitments",
    breaks: () => ({ purge: async () => ({ removed: 0, more: false }) }),
  },
  "purges more than it was asked for": {
    fails: "purge removes keys past their time, up to the limit, and no other keys or commitments",
    breaks: ({ purge }) => ({ purge: () => purge(1_000) }),
  },
  "ignores the state in a query": {
    fails: "commitments are paged by id, and filtered by resource, requester and state",
    breaks: ({ commitments }) => ({
      commitments: ({ state: _, ...query }) => commitments(query),
    }),
  },
  "gives the first page again and again": {
    fails: "resources are paged, and found by name",
    breaks: ({ resources }) => ({ resources: ({ after: _, ...query }) => resources(query) }),
  },
  "finds keys whatever the commitment": {
    fails: "keys are paged, and found by id and by commitment",
    breaks: ({ keys }) => ({ keys: ({ commitment: _, ...query }) => keys(query) }),
  },
  "shows events in reverse": {
    fails: "history reads all pages",
    breaks: ({ events }) => ({ events: async (query) => reversed(await events(query)) }),
  },
  "loses the links between events": {
    fails: "each transition appends an event to a chain, with the time of one clock reading",
    breaks: ({ events }) => ({
      async events(query) {
        const page = await events(query);
        return { ...page, rows: page.rows.map((event) => ({ ...event, previous: "" })) };
      },
    }),
  },
  "has a clock with fractions": {
    fails: "now() returns whole milliseconds",
    breaks: ({ now }) => ({ now: async () => (await now()) + 0.5 }),
  },
};

function casesOn(breaks: Break) {
  return reservationCases(() => {
    const clock = manualClock();
    const sound = memoryReservations({ clock });
    return { store: { ...sound, ...breaks(sound) }, advance: clock.advance };
  });
}

for (const [name, { fails, breaks }] of Object.entries(BROKEN))
  test(`a store that ${name} fails a case`, async () => {
    const judge = casesOn(breaks).find((one) => one.name === fails);
    await expect(judge?.run()).rejects.toThrow(`${judge?.subject}: ${fails}\n  asked:`);
    // The case blames the fault and nothing else.
    await casesOn(() => ({}))
      .find((one) => one.name === fails)
      ?.run();
  });

test("Grace: conformance kit for stores", async () => {
  for (const { run } of casesOn(() => ({}))) await run();
});

test("a case closes the store, or calls dispose instead", async () => {
  const ends: string[] = [];
  const close = async () => void ends.push("closed");
  const dispose = () => void ends.push("disposed");
  const last = (create: Parameters<typeof reservationCases>[0]) =>
    reservationCases(create).find(({ name }) => name.startsWith("now()"));
  await last(() => ({ ...memoryReservations(), close }))?.run();
  await last(() => ({ store: { ...memoryReservations(), close }, dispose }))?.run();
  expect(ends).toEqual(["closed", "disposed"]);
});

test("a failed case says what was expected and what came", async () => {
  const [first] = casesOn(() => ({ get: async () => ({ commitment: undefined, now: 0 }) }));
  await expect(first?.run()).rejects.toThrow(
    /^lifecycle: a hold is placed, read back, and confirmed once\n {2}asked: .*\n {2}expected: \{ id: .*\n {2}came: {5}undefined$/,
  );
});
