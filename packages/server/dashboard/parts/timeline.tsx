/** The history of a key, newest last: from its record, and from the events that this server observed. */
import type { JSX } from "preact";
import type { KeyEventJson, KeyJson } from "../../src/api/api-json.ts";
import { clockWords, durationWords, momentWords, tookWords } from "../formats.ts";
import { serverNow } from "../server.ts";

interface Moment {
  readonly at: number;
  readonly title: string;
  readonly text?: string;
  readonly tone: "good" | "busy" | "warn" | "bad" | "plain";
  readonly count: number;
}

type Describe = (detail: Readonly<Record<string, unknown>>) => Omit<Moment, "at" | "count">;

const DESCRIPTIONS: Readonly<Record<string, Describe>> = {
  claimed: ({ number }) => ({ title: "Claimed", text: `attempt ${number}`, tone: "busy" }),
  "taken-over": ({ number }) => ({
    title: "Taken over",
    text: `attempt ${number}, after a lapse`,
    tone: "warn",
  }),
  renewed: ({ leaseMs }) => ({
    title: "Renewed",
    text: `for ${durationWords(Number(leaseMs))}`,
    tone: "busy",
  }),
  "token-spent": () => ({
    title: "Refused: token spent",
    text: "a claim came with a token that had already abandoned this key",
    tone: "bad",
  }),
  "step-kept": ({ step, position }) => ({ title: `Step ${position} done`, text: String(step), tone: "good" }),
  "step-skipped": ({ step, position }) => ({
    title: `Step ${position} skipped`,
    text: `${step}, done by an earlier attempt`,
    tone: "plain",
  }),
  completed: ({ ranMs }) => ({ title: "Completed", text: `after ${tookWords(Number(ranMs))}`, tone: "good" }),
  replayed: ({ refused }) => ({
    title: refused === true ? "Refused: already done" : "Replayed",
    tone: "good",
  }),
  pending: () => ({ title: "Refused: still running", text: "the client has to retry later", tone: "plain" }),
  waited: ({ waitedMs }) => ({ title: "Waited", text: `for ${tookWords(Number(waitedMs))}`, tone: "plain" }),
  conflict: () => ({ title: "Conflict", text: "the key came with a different request", tone: "bad" }),
  lapsed: () => ({ title: "Outcome unknown", text: "a request met the lapsed claim", tone: "warn" }),
  "lease-lost": ({ reason }) => ({ title: "Lease lost", text: String(reason ?? ""), tone: "bad" }),
  "not-kept": () => ({ title: "Done, outcome not stored", tone: "warn" }),
  abandoned: ({ as }) => ({ title: "Abandoned", text: `as ${as}`, tone: "plain" }),
  unavailable: () => ({ title: "The store did not answer", tone: "bad" }),
};

export function Timeline(props: {
  readonly record: KeyJson;
  readonly events: readonly KeyEventJson[];
}): JSX.Element {
  const moments = toMoments(props.record, props.events);
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

function toMoments(record: KeyJson, events: readonly KeyEventJson[]): readonly Moment[] {
  const seen = mergeRepeats(events.map(toMoment));
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
  if (!kinds.has("step-kept"))
    for (const [index, { name, keptAt }] of (record.steps ?? []).entries())
      kept.push({ at: keptAt, title: `Step ${index + 1} done`, text: name, tone: "good", count: 1 });
  if (record.completedAt !== null && !kinds.has("completed"))
    kept.push({ at: record.completedAt, title: "Completed", tone: "good", count: 1 });
  return [...kept, ...seen].sort((a, b) => a.at - b.at).concat(currentState(record));
}

function toMoment({ at, kind, detail }: KeyEventJson): Moment {
  const description = DESCRIPTIONS[kind]?.(detail) ?? { title: kind, tone: "plain" as const };
  return { at, count: 1, ...description };
}

/** Joins consecutive moments with the same title into one line with a count. */
function mergeRepeats(moments: readonly Moment[]): readonly Moment[] {
  const rows: Moment[] = [];
  for (const moment of moments) {
    const last = rows.at(-1);
    if (last?.title === moment.title) rows[rows.length - 1] = { ...moment, count: last.count + 1 };
    else rows.push(moment);
  }
  return rows;
}

/** The last line: the current state. */
function currentState({ state, held, leaseLeftMs, keptUntil }: KeyJson): readonly Moment[] {
  const at = serverNow();
  if (state === "pending")
    return [
      {
        at,
        title: "Running",
        text: `${durationWords(leaseLeftMs)} of the lease left`,
        tone: "busy",
        count: 1,
      },
    ];
  if (state === "lapsed") {
    const text = held ? "waits for a decision" : "the next request takes it over";
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
