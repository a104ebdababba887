/**
 * The history of a record, as the one text that every store keeps: the token of the claim that it belongs to, and then one
 * line about the attempts. The first claim and a completion write none of it; a renewal and an abandon add to the note of
 * their attempt, and the next claim turns the attempt that it replaces into an entry.
 *
 *   <token>
 *   <note>;<entry>;<entry>…    the latest entry first, at most MAX_ENTRIES
 *
 *   note    of the present attempt: empty; or " RENEWALS RENEWED_AT"; or, after it gave its claim up, " RENEWALS RENEWED_AT
 *           ENDED_AT HOW", where 0 stands for a renewal that never was
 *   entry   an earlier attempt: "NUMBER FENCE CLAIMED_AT END" and its note. END is the end of the lease of an attempt that
 *           lapsed, and otherwise `r` (released) or `u` (unknown)
 *
 * Times are whole milliseconds. Stores that decide in SQL or Lua build the same line. A release that does not know the
 * history leaves the old token in front of it, so that it counts as absent: it may belong to an earlier life of the key.
 */
import { damagedRecord } from "./damaged-record.ts";
import type { AbandonAs, KeptAttempt, RecordHistory, RecordState } from "./store.ts";

/** How many earlier attempts a record remembers. */
export const MAX_ENTRIES = 32;

/** The part of a record that its history depends on. */
export interface HistoryOwner {
  readonly id: string;
  readonly token: string;
  readonly state: RecordState;
  readonly spent: boolean;
  readonly number: number;
  readonly fence: number;
  readonly claimedAt: number;
  readonly leaseEndsAt: number;
  readonly completedAt: number | undefined;
  readonly history?: string | undefined;
}

/** Whether a number is whole is for the checks of records to say. */
const NUMBER = "([\\d.]{1,20})";
const GROUPS = `(?: ${NUMBER} ${NUMBER}(?: ${NUMBER} (released|unknown|unrun|completed))?)?`;
const NOTE = new RegExp(`^${GROUPS}$`);
const ENTRY = new RegExp(`^${NUMBER} ${NUMBER} ${NUMBER} (\\d{1,16}|[ru])${GROUPS}$`);

/** The note, and the entries; a history of another token is none. */
function linesIn({ token, history }: HistoryOwner): readonly [note: string, ...entries: string[]] {
  const line = history?.startsWith(`${token}\n`) ? history.slice(token.length + 1) : "";
  return line.split(";") as [string, ...string[]];
}

/** The text after a renewal. A damaged note counts as none: no claim may be lost over its history. */
export function renewedHistory(owner: HistoryOwner, now: number): string {
  const [note, ...entries] = linesIn(owner);
  const renewals = Number(NOTE.exec(note)?.[1] ?? 0) + 1;
  return historyText(owner.token, ` ${renewals} ${Math.floor(now)}`, entries);
}

/** The text after the attempt has ended, other than by completion. `completed`: its completion was taken back. */
export function endedHistory(owner: HistoryOwner, how: AbandonAs | "completed", at: number): string {
  const [note, ...entries] = linesIn(owner);
  const [, renewals = 0, renewedAt = 0] = NOTE.exec(note) ?? [];
  return historyText(owner.token, ` ${renewals} ${renewedAt} ${Math.floor(at)} ${how}`, entries);
}

/** The text for the claim of another token, which turns the attempt that it replaces into an entry. */
export function nextHistory(owner: HistoryOwner, token: string): string {
  const { state, spent, number, fence, claimedAt, leaseEndsAt } = owner;
  const [note, ...entries] = linesIn(owner);
  const end = state === "released" ? "r" : spent ? "u" : Math.floor(leaseEndsAt);
  const entry = `${number} ${fence} ${Math.floor(claimedAt)} ${end}${note}`;
  return historyText(token, "", [entry, ...entries.slice(0, MAX_ENTRIES - 1)]);
}

function historyText(token: string, note: string, entries: readonly string[]): string {
  return `${token}\n${[note, ...entries].join(";")}`;
}

/**
 * The attempts in their order, the present one last, of a record that is seen in this state. Throws `store-unsafe` if the
 * text is damaged.
 */
export function historyIn(owner: HistoryOwner, seen: RecordState): RecordHistory {
  const [note, ...entries] = linesIn(owner);
  const attempts = entries.reverse().map((entry) => earlierAttempt(owner.id, entry));
  const { number, fence, claimedAt } = owner;
  const present = { number, fence, claimedAt, ...presentNote(owner, seen, note) };
  return { attempts: [...attempts, present], dropped: Math.max(0, number - 1 - attempts.length) };
}

function earlierAttempt(id: string, entry: string): KeptAttempt {
  const [, number, fence, claimedAt, end = "", ...note] = matched(id, ENTRY, entry);
  const { renewals, renewedAt, endedAt, ended } = toNote(note);
  const given = ended ?? (end === "r" ? "released" : "unknown");
  const isLapsed = end !== "r" && end !== "u";
  return {
    number: Number(number),
    fence: Number(fence),
    claimedAt: Number(claimedAt),
    renewals,
    renewedAt,
    endedAt: isLapsed ? Number(end) : endedAt,
    ended: isLapsed ? "lapsed" : given,
  };
}

type AttemptNote = Pick<KeptAttempt, "renewals" | "renewedAt" | "endedAt" | "ended">;

function presentNote(owner: HistoryOwner, seen: RecordState, text: string): AttemptNote {
  const [, ...groups] = matched(owner.id, NOTE, text);
  const note = toNote(groups);
  if (seen === "completed") return { ...note, endedAt: owner.completedAt, ended: "completed" };
  if (owner.spent) return { ...note, ended: note.ended ?? (seen === "released" ? "released" : "unknown") };
  return seen === "lapsed" ? { ...note, endedAt: owner.leaseEndsAt, ended: "lapsed" } : note;
}

/** The groups of a note. */
function toNote([renewals = "0", renewedAt = "0", endedAt, ended]: readonly (
  | string
  | undefined
)[]): AttemptNote {
  return {
    renewals: Number(renewals),
    renewedAt: renewals === "0" ? undefined : Number(renewedAt),
    endedAt: endedAt === undefined ? undefined : Number(endedAt),
    ended: ended as KeptAttempt["ended"],
  };
}

function matched(id: string, pattern: RegExp, text: string): readonly (string | undefined)[] {
  const found = pattern.exec(text);
  if (found === null) throw damagedRecord(id, "history");
  return found;
}
