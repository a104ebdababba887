/** Rows of the table as operators see them: the state of a message, pages of a list, and figures. */
import type { ListQuery, MessagePage, MessageState, MessageView, OutboxFigures } from "./store.ts";
import { MAX_COUNTED, MAX_LOOKED } from "./store.ts";

/** A row without its content. Times are microseconds of the database's clock, as text. */
export interface MessageRow {
  readonly seq: string;
  readonly id: string;
  readonly topic: string;
  readonly key: string | null;
  readonly scope: string;
  readonly createdAt: string;
  readonly attempts: string;
  readonly dueAt: string | null;
  readonly isClaimed: boolean;
  readonly parkedAt: string | null;
  readonly lastError: string | null;
  /** The clock when the row was read. */
  readonly now: string;
}

export function toMs(micros: string | number): number {
  return Math.floor(Number(micros) / 1_000);
}

function toState({ dueAt, isClaimed, parkedAt, now }: MessageRow): MessageState {
  if (parkedAt !== null) return "parked";
  if (dueAt === null) return "behind";
  return isClaimed && Number(dueAt) > Number(now) ? "delivering" : "waiting";
}

function toView(row: MessageRow): MessageView {
  const isLater = row.dueAt !== null && Number(row.dueAt) > Number(row.now);
  return {
    id: row.id,
    topic: row.topic,
    key: row.key ?? undefined,
    scope: row.scope === "" ? undefined : row.scope,
    state: toState(row),
    createdAt: toMs(row.createdAt),
    attempts: Number(row.attempts),
    ...(isLater && { dueAt: toMs(row.dueAt as string) }),
    ...(row.parkedAt !== null && { parkedAt: toMs(row.parkedAt) }),
    ...(row.lastError !== null && { lastError: row.lastError }),
  };
}

/** How many rows to read for a page. A filter that no index serves is applied to a bounded number of rows. */
export function rowsToRead({ topic, state, limit }: ListQuery): number {
  const isFiltered = topic !== undefined || (state !== undefined && state !== "parked");
  return isFiltered ? MAX_LOOKED : limit + 1;
}

/** `rows` are those after the position, in order, as many as `rowsToRead` says. */
export function toPage(rows: readonly MessageRow[], query: ListQuery): MessagePage {
  const { topic, state, limit } = query;
  const found = rows.filter(
    (row) => (topic === undefined || row.topic === topic) && (state === undefined || toState(row) === state),
  );
  const shown = found.slice(0, limit);
  const messages = shown.map(toView);
  if (found.length > limit) return { messages, next: (shown.at(-1) as MessageRow).seq };
  if (rows.length < rowsToRead(query)) return { messages };
  return { messages, next: (rows.at(-1) as MessageRow).seq };
}

/** A group of messages of one topic in one state: `due`, `planned`, `delivering`, `behind` or `parked`. */
export interface CountedGroup {
  readonly topic: string;
  readonly state: string;
  readonly messages: number;
  readonly oldestAt: number;
}

const MAX_TOPICS = 20;

export function toFigures(groups: readonly CountedGroup[], now: number): OutboxFigures {
  const sum = (...states: readonly string[]) => {
    const counted = groups.filter(({ state }) => states.includes(state));
    return Math.min(
      MAX_COUNTED,
      counted.reduce((total, { messages }) => total + messages, 0),
    );
  };
  const moving = groups.filter(({ state }) => state !== "behind" && state !== "parked");
  const topics = new Map<string, number>();
  for (const { topic, messages } of groups) topics.set(topic, (topics.get(topic) ?? 0) + messages);
  const oldestAt = Math.min(...moving.map((group) => group.oldestAt));
  return {
    undelivered: sum("due", "planned", "delivering", "behind", "parked"),
    waiting: sum("due", "planned"),
    due: sum("due"),
    delivering: sum("delivering"),
    behind: sum("behind"),
    parked: sum("parked"),
    oldestMs: moving.length === 0 ? undefined : Math.max(0, toMs(now - oldestAt)),
    topics: [...topics]
      .map(([topic, messages]) => ({ topic, messages: Math.min(messages, MAX_COUNTED) }))
      .sort((a, b) => b.messages - a.messages || (a.topic < b.topic ? -1 : 1))
      .slice(0, MAX_TOPICS),
    countedUpTo: MAX_COUNTED,
  };
}
