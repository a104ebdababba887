/** The life of a key, newest last: what its record says, and what this server saw. */
import type { JSX } from "preact";
import { serverNow } from "../server.ts";
import type { KeyRecord, SeenEvent } from "../shapes.ts";
import { clockWords, durationWords, momentWords, tookWords } from "../words.ts";

interface Moment {
  readonly at: number;
  readonly title: string;
  readonly text?: string;
  readonly tone: "good" | "busy" | "warn" | "bad" | "plain";
  readonly count: number;
}

type Teller = (detail: Readonly<Record<string, unknown>>) => Omit<Moment, "at" | "count">;

const TELLERS: Readonly<Record<string, Teller>> = {
  claimed: ({ number }) => ({ title: "Claimed", text: `attempt ${number}`, tone: "busy" }),
  "taken-over": ({ number }) => ({
    title: "Taken over",
    text: `attempt ${number}, after a lapse`,
    tone: "warn",
  }),
  completed: ({ ranMs }) => ({ title: "Completed", text: `after ${tookWords(Number(ranMs))}`, tone: "good" }),
  replayed: ({ refused }) => ({
    title: refused === true ? "Refused, done before" : "Replayed",
    tone: "good",
  }),
  pending: () => ({ title: "Told to come back", text: "while the work ran", tone: "plain" }),
  waited: ({ waitedMs }) => ({ title: "Waited", text: `for ${tookWords(Number(waitedMs))}`, tone: "plain" }),
  conflict: () => ({ title: "Conflict", text: "the key came with another request", tone: "bad" }),
  lapsed: () => ({ title: "Outcome unknown", text: "a request met the lapsed claim", tone: "warn" }),
  "lease-lost": ({ reason }) => ({ title: "Lease lost", text: String(reason ?? ""), tone: "bad" }),
  "not-kept": () => ({ title: "Done, outcome not kept", tone: "warn" }),
  abandoned: ({ as }) => ({ title: "Given up", text: `as ${as}`, tone: "plain" }),
  unavailable: () => ({ title: "The store did not answer", tone: "bad" }),
};

export function Timeline(props: {
  readonly record: KeyRecord;
  readonly events: readonly SeenEvent[];
}): JSX.Element {
  const moments = momentsOf(props.record, props.events);
  const isToday = moments.every(({ at }) => serverNow() - at < 43_200_000);
  return (
    <ol class="timeline">
      {moments.map(({ at, title, text, tone, count }, index) => (
        <li key={index} class={`moment is-${tone}`}>
          <p class="moment-title">
            {title}
            {count > 1 && <span class="moment-count figure">×{count}</span>}
          </p>
          {text !== undefined && text !== "" && <p class="muted">{text}</p>}
          <time class="figure muted" dateTime={new Date(at).toISOString()} title={momentWords(at)}>
            {isToday ? clockWords(at) : momentWords(at)}
          </time>
        </li>
      ))}
    </ol>
  );
}

function momentsOf(record: KeyRecord, events: readonly SeenEvent[]): readonly Moment[] {
  const seen = together(events.map(momentOf));
  const kinds = new Set(events.map(({ kind }) => kind));
  const kept: Moment[] = [];
  if (!kinds.has("claimed") && !kinds.has("taken-over"))
    kept.push({
      at: record.claimedAt,
      title: "Claimed",
      text: `attempt ${record.number}`,
      tone: "busy",
      count: 1,
    });
  if (record.completedAt !== null && !kinds.has("completed"))
    kept.push({ at: record.completedAt, title: "Completed", tone: "good", count: 1 });
  return [...kept, ...seen].sort((a, b) => a.at - b.at).concat(ending(record));
}

function momentOf({ at, kind, detail }: SeenEvent): Moment {
  const told = TELLERS[kind]?.(detail) ?? { title: kind, tone: "plain" as const };
  return { at, count: 1, ...told };
}

/** A storm of replays is one line. */
function together(moments: readonly Moment[]): readonly Moment[] {
  const rows: Moment[] = [];
  for (const moment of moments) {
    const last = rows.at(-1);
    if (last?.title === moment.title) rows[rows.length - 1] = { ...moment, count: last.count + 1 };
    else rows.push(moment);
  }
  return rows;
}

/** How it stands now. */
function ending({ state, held, leaseLeftMs, keptUntil }: KeyRecord): readonly Moment[] {
  const at = serverNow();
  if (state === "pending")
    return [
      {
        at,
        title: "Running",
        text: `${durationWords(leaseLeftMs)} of its lease left`,
        tone: "busy",
        count: 1,
      },
    ];
  if (state === "lapsed") {
    const text = held ? "it waits for a decision" : "the next request takes it over";
    return [{ at, title: "Lapsed, outcome unknown", text, tone: "warn", count: 1 }];
  }
  if (state === "released")
    return [{ at, title: "Free", text: "the next request does the work", tone: "plain", count: 1 }];
  if (keptUntil === null) return [];
  return [
    {
      at,
      title: "Answers retries",
      text: `for ${durationWords(keptUntil - at)} more`,
      tone: "good",
      count: 1,
    },
  ];
}
