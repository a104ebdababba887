/** All records of one namespace, and the same records as the model expects them. */
import type {
  JournalEvent,
  KeptCommitment,
  KeptResource,
  KeyRecord,
  Page,
  PageQuery,
  ReservationStore,
} from "../../src/reservations/index.ts";
import { asGiven, findPool, type Model, occupied, taken, toName } from "./model.ts";

export interface Records {
  readonly commitments: readonly KeptCommitment[];
  readonly resources: readonly KeptResource[];
  readonly keys: readonly KeyRecord[];
  readonly events: readonly JournalEvent[];
}

export const NO_RECORDS: Records = { commitments: [], resources: [], keys: [], events: [] };

export async function readRecords(store: ReservationStore, namespace: string): Promise<Records> {
  const [commitments, resources, keys, events] = await Promise.all([
    readAll((page) => store.commitments(page), namespace),
    readAll((page) => store.resources(page), namespace),
    readAll((page) => store.keys(page), namespace),
    readAll((page) => store.events(page), namespace),
  ]);
  return { commitments, resources, keys, events };
}

export async function readAll<Row>(
  read: (query: PageQuery) => Promise<Page<Row>>,
  namespace: string,
): Promise<Row[]> {
  const rows: Row[] = [];
  let after: string | undefined;
  do {
    const page = await read({ namespace, limit: 1_000, after });
    rows.push(...page.rows);
    after = page.next;
  } while (after !== undefined);
  return rows;
}

/** The comparable part of the records, without hashes and other values that only the store knows. */
export function seenIn({ commitments, resources, keys, events }: Records): object {
  return {
    commitments: byName(
      commitments.map((row) => [row.id, { ...sharedOf(row), confirmed: row.confirmedUnits ?? null }]),
    ),
    resources: byName(
      resources.map(({ name, capacity, taken, state, isDeclared }) => [
        name,
        { capacity, taken, state, isDeclared },
      ]),
    ),
    keys: byName(
      keys.map((row) => {
        const { action, parameters, answer, recordedAt, windowEndsAt, keptUntil } = row;
        return [toName(row), { action, parameters, answer, recordedAt, windowEndsAt, keptUntil }];
      }),
    ),
    events: bySubject(
      events.map((event) => ({ ...event, subject: event.subject.replace(/^request:.*/s, "request") })),
    ),
  };
}

/** The members that a commitment has in the store and in the model. */
function sharedOf(
  row: Omit<
    KeptCommitment,
    "confirmedUnits" | "lastHash" | "namespace" | "events" | "endedAt" | "requesterSalt"
  > & {
    readonly endedAt?: number | undefined;
  },
): object {
  const { resource, requester, units, placedAt, expiresAt, state, endedAt, occupied } = row;
  return { resource, requester, units, placedAt, expiresAt, state, endedAt: endedAt ?? null, occupied };
}

export function toExpected(model: Model): object {
  // A resource that was only ever refused has a row too.
  const refused = model.log.flatMap(({ subject }) => /^resource:(.*)$/s.exec(subject)?.[1] ?? []);
  const names = new Set([...refused, ...model.pools.keys(), ...model.holds.map(({ resource }) => resource)]);
  return {
    commitments: byName(
      model.holds.map((hold) => {
        const confirmed = hold.state === "confirmed" ? hold.confirmed : null;
        return [hold.id, { ...sharedOf({ ...hold, occupied: occupied(hold) }), confirmed }];
      }),
    ),
    resources: byName(
      [...names].map((name) => {
        const { capacity, state, isDeclared } = findPool(model, name);
        return [name, { capacity, taken: taken(model, name), state, isDeclared }];
      }),
    ),
    keys: byName(
      [...model.keys.values()].map(({ call, answer, recordedAt, windowEndsAt, keptUntil }) => [
        toName(call),
        { action: call.action, parameters: asGiven(call), answer, recordedAt, windowEndsAt, keptUntil },
      ]),
    ),
    events: bySubject(model.log),
  };
}

function bySubject(events: readonly { subject: string; kind: string; at: number }[]): object {
  const stories = new Map<string, string[]>();
  for (const { subject, kind, at } of events)
    stories.set(subject, [...(stories.get(subject) ?? []), `${kind} at ${at}`]);
  // The model does not name requests, so their order is lost.
  stories.get("request")?.sort();
  return byName([...stories]);
}

function byName(entries: readonly (readonly [string, unknown])[]): object {
  return Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}
