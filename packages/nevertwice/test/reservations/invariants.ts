/**
 * The twenty-two invariants, each by itself: ten of Provisional Commitment, four of Duplicate Prevention, eight of their
 * composition. Each checks one moment: the calls at one time, and the records before and after them.
 */
import { isDeepStrictEqual } from "node:util";
import type { Answer, JournalEvent, KeptCommitment, KeyRecord } from "../../src/reservations/index.ts";
import { asGiven, type Call, type Terms, toName } from "./model.ts";
import type { Records } from "./records.ts";

export interface Answered {
  readonly call: Call;
  readonly answer: Answer;
}

export interface Moment {
  readonly terms: Terms;
  readonly at: number;
  readonly answered: readonly Answered[];
  readonly before: Records;
  readonly after: Records;
}

export interface Invariant {
  readonly name: string;
  /** What breaks it. */
  offenders(moment: Moment): readonly string[];
}

const ENDS = ["confirmed", "released", "expired"];

function findEnds({ id }: KeptCommitment, { events }: Records): JournalEvent[] {
  return events.filter(({ subject, kind }) => subject === `commitment:${id}` && ENDS.includes(kind));
}

function toNames(rows: readonly { readonly id: string }[]): string[] {
  return rows.map(({ id }) => id);
}

/** Checks each commitment as it is now. */
function everyOne(name: string, isKept: (row: KeptCommitment, moment: Moment) => boolean): Invariant {
  return {
    name,
    offenders: (moment) => toNames(moment.after.commitments.filter((row) => !isKept(row, moment))),
  };
}

/** Checks each earlier commitment against its current state. */
function everyChange(
  name: string,
  isKept: (before: KeptCommitment, after: KeptCommitment | undefined, moment: Moment) => boolean,
): Invariant {
  return {
    name,
    offenders(moment) {
      const rows = new Map(moment.after.commitments.map((row) => [row.id, row]));
      return toNames(moment.before.commitments.filter((row) => !isKept(row, rows.get(row.id), moment)));
    },
  };
}

/** Checks each call with a valid key against the key's row before and after it. */
function everyCall(
  name: string,
  isKept: (
    answered: Answered,
    before: KeyRecord | undefined,
    after: KeyRecord | undefined,
    moment: Moment,
  ) => boolean,
): Invariant {
  return {
    name,
    offenders(moment) {
      const before = new Map(moment.before.keys.map((row) => [toName(row), row]));
      const after = new Map(moment.after.keys.map((row) => [toName(row), row]));
      return moment.answered
        .filter(({ call: { key } }) => key !== "" && Buffer.byteLength(key) <= 256)
        .filter((one) => !isKept(one, before.get(toName(one.call)), after.get(toName(one.call)), moment))
        .map(({ call }) => `${call.action} ${toName(call)}`);
    },
  };
}

function isBound(row: KeyRecord | undefined, { at }: Moment): row is KeyRecord {
  return row !== undefined && at < row.keptUntil;
}

function isSame(row: KeyRecord, call: Call): boolean {
  return row.action === call.action && isDeepStrictEqual(row.parameters, asGiven(call));
}

function isRepeatedRight({ call, answer }: Answered, before: KeyRecord | undefined, moment: Moment): boolean {
  return !isBound(before, moment) || !isSame(before, call) || isDeepStrictEqual(answer, before.answer);
}

/** Events of one key that are closer together than a window. */
function tooClose(events: readonly JournalEvent[], { terms: { windowMs } }: Moment): string[] {
  const last = new Map<string, number>();
  const offenders: string[] = [];
  for (const { keyId, at, subject } of [...events].sort((a, b) => a.at - b.at)) {
    if (keyId === undefined) continue;
    const earlier = last.get(keyId);
    if (earlier !== undefined && at - earlier < windowMs) offenders.push(subject);
    last.set(keyId, at);
  }
  return offenders;
}

export const OF_COMMITMENTS: readonly Invariant[] = [
  everyOne("membership exclusivity", (row, { after }) => {
    const ends = findEnds(row, after);
    if (row.state === "held") return row.endedAt === undefined && ends.length === 0;
    return row.endedAt !== undefined && ends.length === 1 && ends[0]?.kind === row.state;
  }),
  everyChange(
    "hold-then-held persistence",
    (before, row, moment) =>
      before.state !== "held" ||
      row?.state === "held" ||
      (row !== undefined && findEnds(row, moment.after).length > findEnds(row, moment.before).length),
  ),
  everyChange(
    "terminal absorption",
    (before, row) =>
      before.state === "held" ||
      (row?.state === before.state &&
        row.endedAt === before.endedAt &&
        row.confirmedUnits === before.confirmedUnits),
  ),
  everyChange("id stability", (before, row, moment) => {
    const birth = ({ events }: Records) =>
      events.find(({ subject, number }) => subject === `commitment:${before.id}` && number === 1)?.hash;
    return row !== undefined && birth(moment.after) === birth(moment.before);
  }),
  everyChange(
    "resource and requester immutability",
    (before, row) =>
      before.resource === row?.resource &&
      before.requester === row.requester &&
      before.units === row.units &&
      before.placedAt === row.placedAt &&
      before.expiresAt === row.expiresAt,
  ),
  everyOne("hold window monotonicity", ({ placedAt, expiresAt }) => placedAt < expiresAt),
  everyOne(
    "confirmation within the window",
    ({ state, endedAt = Number.NaN, expiresAt }) => state !== "confirmed" || endedAt < expiresAt,
  ),
  everyOne(
    "transition timestamps after placement",
    ({ state, endedAt = Number.NaN, placedAt, expiresAt }) =>
      state === "held" || endedAt >= (state === "expired" ? expiresAt : placedAt),
  ),
  {
    name: "no id reuse",
    offenders({ before, after }) {
      const known = new Set(toNames(before.commitments));
      const born = after.events.filter(({ kind }) => kind === "placed").map(({ subject }) => subject);
      const isNew = after.events
        .slice(0)
        .filter(({ kind, hash }) => kind === "placed" && !before.events.some((event) => event.hash === hash));
      return [
        ...born.filter((subject, index) => born.indexOf(subject) !== index),
        ...isNew
          .map(({ subject }) => subject)
          .filter((subject) => known.has(subject.slice("commitment:".length))),
      ];
    },
  },
  {
    name: "commitment store durability",
    offenders({ before, after }) {
      const ids = new Set(toNames(after.commitments));
      const hashes = new Set(after.events.map(({ hash }) => hash));
      return [
        ...toNames(before.commitments).filter((id) => !ids.has(id)),
        ...before.events.filter(({ hash }) => !hashes.has(hash)).map(({ subject }) => subject),
      ];
    },
  },
];

const OF_THE_GUARD: readonly Invariant[] = [
  everyCall("window monotonicity", (_, before, after, moment) => {
    const { at, terms } = moment;
    const isAnsweredByIt = after !== undefined && before?.recordedAt === after.recordedAt;
    return !isAnsweredByIt || at - after.recordedAt < terms.windowMs + terms.historyMs;
  }),
  {
    name: "single recording",
    offenders(moment) {
      const rows = new Map(moment.after.keys.map((row) => [row.id, row]));
      const isKept = ({ id, recordedAt, windowEndsAt }: KeyRecord) =>
        rows.get(id) === undefined ||
        (rows.get(id)?.recordedAt === recordedAt && rows.get(id)?.windowEndsAt === windowEndsAt);
      return toNames(moment.before.keys.filter((row) => isBound(row, moment) && !isKept(row)));
    },
  },
  {
    name: "idempotency of check",
    offenders(moment) {
      const { before, after, answered } = moment;
      const rows = new Map(before.keys.map((row) => [toName(row), row]));
      const isReading =
        answered.length > 0 && answered.every(({ call }) => isBound(rows.get(toName(call)), moment));
      return isReading && !isDeepStrictEqual(before, after) ? answered.map(({ call }) => toName(call)) : [];
    },
  },
  everyCall(
    "eventual expiry",
    (_, before, after, moment) =>
      before === undefined || isBound(before, moment) || after?.recordedAt === moment.at,
  ),
];

const OF_BOTH: readonly Invariant[] = [
  everyCall(
    "idempotent placeHold within the window",
    (one, before, _, moment) => one.call.action !== "placeHold" || isRepeatedRight(one, before, moment),
  ),
  everyCall(
    "idempotent state transitions within the window",
    (one, before, _, moment) => one.call.action === "placeHold" || isRepeatedRight(one, before, moment),
  ),
  {
    name: "one commitment for a key within the window",
    offenders(moment) {
      const { events, keys } = moment.after;
      const births = events.filter(({ kind }) => kind === "placed");
      const stray = keys.filter(
        ({ id, answer }) =>
          "id" in answer &&
          !births.some((event) => event.keyId === id && event.subject === `commitment:${answer.id}`),
      );
      return [...tooClose(births, moment), ...toNames(stray)];
    },
  },
  everyCall(
    "token-action binding",
    ({ call, answer }, before, _, moment) =>
      !isBound(before, moment) || isSame(before, call) || (!answer.ok && answer.reason === "token-collision"),
  ),
  everyCall("every decided answer is kept, rejections too", ({ call, answer }, _, after) =>
    after !== undefined && isSame(after, call)
      ? isDeepStrictEqual(after.answer, answer)
      : after !== undefined && !answer.ok && answer.reason === "token-collision",
  ),
  {
    name: "recorded once for each first use",
    offenders(moment) {
      const { before, after, at, terms } = moment;
      const old = new Map(before.keys.map((row) => [row.id, row]));
      return toNames(
        after.keys.filter((row) => {
          const isUntouched = isDeepStrictEqual(old.get(row.id), row);
          const isRecorded = row.recordedAt === at && row.windowEndsAt === at + terms.windowMs;
          return !isUntouched && (isBound(old.get(row.id), moment) || !isRecorded);
        }),
      );
    },
  },
  {
    name: "no answer is gone while its key is recorded",
    offenders(moment) {
      const left = new Map(moment.after.keys.map((row) => [row.id, row]));
      return toNames(
        moment.before.keys.filter(
          (row) => isBound(row, moment) && !isDeepStrictEqual(left.get(row.id)?.answer, row.answer),
        ),
      );
    },
  },
  {
    name: "exactly one effect within the window",
    offenders: (moment) => tooClose(moment.after.events, moment),
  },
];

export const INVARIANTS: readonly Invariant[] = [...OF_COMMITMENTS, ...OF_THE_GUARD, ...OF_BOTH];

/** The broken invariants, with their problems. */
export function broken(moment: Moment, invariants: readonly Invariant[] = INVARIANTS): string[] {
  return invariants.flatMap(({ name, offenders }) =>
    offenders(moment).map((offender) => `${name}: ${offender}`),
  );
}
