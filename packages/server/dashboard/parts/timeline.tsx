/**
 * The history of a key, newest last: from its record, which the store keeps, and from the events that this server observed.
 */
import type { JSX } from "preact";
import type { AttemptJson, HistoryJson, KeyEventJson, KeyJson } from "../../src/api/api-json.ts";
import { clockWords, durationWords, momentWords, plural, tookWords } from "../formats.ts";
import { serverNow } from "../server.ts";

interface Moment {
  /** Undefined for now. */
  readonly at?: number | undefined;
  readonly title: string;
  readonly text?: string;
  readonly tone: "good" | "busy" | "warn" | "bad" | "plain";
  readonly count: number;
}

/** A moment whose time is known. */
type Past = Moment & { readonly at: number };

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
  "replay-not-kept": () => ({
    title: "Already done",
    text: "the outcome was not stored, so the duplicate did not get it",
    tone: "warn",
  }),
  "replay-unreadable": () => ({
    title: "Already done",
    text: "the stored outcome could not be read",
    tone: "bad",
  }),
  "replay-expired": () => ({ title: "Refused: expired", tone: "plain" }),
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
  const now = serverNow();
  const isToday = moments.every(({ at = now }) => now - at < 43_200_000);
  return (
    <ol class="timeline">
      {moments.map(({ at, title, text, tone, count }, index) => (
        <li key={index} class={`moment is-${tone}`}>
          <p class="moment-title">
            {title}
            {count > 1 && <span class="moment-count figure">×{count}</span>}
          </p>
          {text !== undefined && text !== "" && <p class="muted">{text}</p>}
          {at === undefined ? (
            <p class="muted">now</p>
          ) : (
            <time class="figure muted" dateTime={new Date(at).toISOString()} title={momentWords(at)}>
              {isToday ? clockWords(at) : momentWords(at)}
            </time>
          )}
        </li>
      ))}
    </ol>
  );
}

/** What the history of the record tells, which the store keeps: it covers all servers, and outlasts them. */
const IN_THE_HISTORY = new Set(["claimed", "taken-over", "renewed", "completed", "abandoned"]);

function toMoments(record: KeyJson, events: readonly KeyEventJson[]): readonly Moment[] {
  const { history } = record;
  if (history === undefined) return momentsWithoutHistory(record, events);
  const others = events.filter(({ kind }) => !IN_THE_HISTORY.has(kind));
  const past = [
    ...historyMoments(history),
    ...stepMoments(record, events),
    ...mergeRepeats(others.map(toMoment)),
  ];
  return [...droppedMoments(history), ...past.sort((a, b) => a.at - b.at), ...currentState(record)];
}

function droppedMoments({ dropped }: HistoryJson): readonly Moment[] {
  if (dropped === 0) return [];
  return [
    { title: `${plural(dropped, "earlier attempt")}`, text: "no longer stored", tone: "plain", count: 1 },
  ];
}

function historyMoments({ attempts }: HistoryJson): readonly Past[] {
  return attempts.flatMap((attempt, index) => {
    const before = attempts[index - 1]?.ended;
    const isTakeover = before === "lapsed" || before === "unknown";
    const { number, claimedAt: at, renewals, renewedAt, ended, endedAt } = attempt;
    // A store may know how an attempt ended, and not when.
    const known = ended !== null && endedAt === null ? `, ended as ${ended}` : "";
    const started: Past = isTakeover
      ? { at, title: "Taken over", text: `attempt ${number}, after a lapse${known}`, tone: "warn", count: 1 }
      : { at, title: "Claimed", text: `attempt ${number}${known}`, tone: "busy", count: 1 };
    const renewed: readonly Past[] =
      renewedAt === null
        ? []
        : [{ at: renewedAt, title: "Renewed", text: "the last time", tone: "busy", count: renewals }];
    // The last line says that the present attempt has lapsed.
    const isLast = index === attempts.length - 1;
    return [started, ...renewed, ...(isLast && ended === "lapsed" ? [] : endMoments(attempt))];
  });
}

const ENDS: Readonly<Record<NonNullable<AttemptJson["ended"]>, Pick<Moment, "title" | "tone">>> = {
  completed: { title: "Completed", tone: "good" },
  lapsed: { title: "Lapsed", tone: "warn" },
  released: { title: "Abandoned as released", tone: "plain" },
  unknown: { title: "Abandoned as unknown", tone: "warn" },
  unrun: { title: "Abandoned before the work started", tone: "plain" },
};

function endMoments({ number, claimedAt, ended, endedAt }: AttemptJson): readonly Past[] {
  if (ended === null || endedAt === null) return [];
  const text = `attempt ${number}, after ${tookWords(endedAt - claimedAt)}`;
  return [{ at: endedAt, text, count: 1, ...ENDS[ended] }];
}

/** The finished steps, unless this server has seen them finish. */
function stepMoments({ steps = [] }: KeyJson, events: readonly KeyEventJson[]): readonly Past[] {
  if (events.some(({ kind }) => kind === "step-kept")) return [];
  return steps.map(({ name, keptAt }, index) => ({
    at: keptAt,
    title: `Step ${index + 1} done`,
    text: name,
    tone: "good",
    count: 1,
  }));
}

function momentsWithoutHistory(record: KeyJson, events: readonly KeyEventJson[]): readonly Moment[] {
  const seen = mergeRepeats(events.map(toMoment));
  const kinds = new Set(events.map(({ kind }) => kind));
  const kept: Past[] = [...stepMoments(record, events)];
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
  return [...[...kept, ...seen].sort((a, b) => a.at - b.at), ...currentState(record)];
}

function toMoment({ at, kind, detail }: KeyEventJson): Past {
  const description = DESCRIPTIONS[kind]?.(detail) ?? { title: kind, tone: "plain" as const };
  return { at, count: 1, ...description };
}

/** Joins consecutive moments with the same title into one line with a count. */
function mergeRepeats(moments: readonly Past[]): readonly Past[] {
  const rows: Past[] = [];
  for (const moment of moments) {
    const last = rows.at(-1);
    if (last?.title === moment.title) rows[rows.length - 1] = { ...moment, count: last.count + 1 };
    else rows.push(moment);
  }
  return rows;
}

/** The last line: the current state. */
function currentState({ state, held, lapsedAt, leaseLeftMs, keptUntil }: KeyJson): readonly Moment[] {
  if (state === "pending")
    return [
      {
        title: "Running",
        text: `${durationWords(leaseLeftMs)} of the lease left`,
        tone: "busy",
        count: 1,
      },
    ];
  if (state === "lapsed") {
    const text = held ? "waits for a decision" : "the next request takes it over";
    return [{ at: lapsedAt ?? undefined, title: "Lapsed, outcome unknown", text, tone: "warn", count: 1 }];
  }
  if (state === "released")
    return [{ title: "Free", text: "the next request does the work", tone: "plain", count: 1 }];
  if (keptUntil === null) return [];
  return [
    {
      title: "Answers retries",
      text: `for ${durationWords(keptUntil - serverNow())} more`,
      tone: "good",
      count: 1,
    },
  ];
}
