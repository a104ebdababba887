/** Reads each kind of record from the cells of its row. The columns have the same names in every SQL store. */
import { MAX_PART_BYTES } from "../core/identity.ts";
import { ACTION_NAMES, type Parameters } from "./action-request.ts";
import { type Answer, REASONS } from "./answer.ts";
import { COMMITMENT_STATES, isName, NAME } from "./commitment.ts";
import { type Checkpoint, EVENT_KINDS, type JournalEvent } from "./journal.ts";
import { RESOURCE_STATES } from "./registry.ts";
import type { KeptCommitment, KeptResource, KeyRecord } from "./store.ts";
import type { Cells } from "./stored-rows.ts";

const DIGEST = /^\d{1,9}:[0-9a-f]{64}$/;
const WRITER = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const HASH = /^[0-9a-f]{64}$/;
/** An undeclared resource has no events, and so no last hash. */
const HASH_OR_NONE = /^(?:[0-9a-f]{64})?$/;

/** The store reads `scope` and `key` itself, since it may keep both in one cell. */
export function readKey(cells: Cells, { scope, key }: Pick<KeyRecord, "scope" | "key">): KeyRecord {
  const action = cells.oneOf("action", ACTION_NAMES);
  const { answer, windowMs, salt } = readAnswer(cells, action === "placeHold");
  return {
    namespace: cells.text("namespace"),
    id: cells.text("id"),
    scope,
    key,
    action,
    digest: cells.matching("digest", DIGEST, "a version and a SHA-256 in hexadecimal"),
    parameters: readParameters(cells),
    answer,
    commitment: cells.optionalText("commitment"),
    recordedAt: cells.time("recorded_at"),
    windowEndsAt: cells.time("window_ends_at"),
    keptUntil: cells.time("kept_until"),
    windowMs,
    salt,
  };
}

function readParameters(cells: Cells): Parameters {
  const value = cells.json("parameters");
  if (!isObject(value)) cells.wrong("parameters", "it is JSON, but not an object");
  return value;
}

/** The cell of the answer also contains `windowMs` and the salt. */
function readAnswer(cells: Cells, isPlacement: boolean): Pick<KeyRecord, "answer" | "windowMs" | "salt"> {
  const value = cells.json("answer");
  if (!isObject(value)) return cells.wrong("answer", "it is JSON, but not an answer");
  const { windowMs, salt, ...answer } = value;
  const problem = answerProblem(answer, isPlacement);
  if (problem !== undefined) cells.wrong("answer", problem);
  if (windowMs !== undefined && !(Number.isSafeInteger(windowMs) && (windowMs as number) >= 1))
    cells.wrong("answer", "its windowMs is not a whole number from 1");
  if (salt !== undefined && typeof salt !== "string") cells.wrong("answer", "its salt is not text");
  return { answer: answer as unknown as Answer, windowMs: windowMs as number | undefined, salt };
}

function answerProblem({ ok, id, reason, detail }: Record<string, unknown>, isPlacement: boolean) {
  if (ok === true) {
    if (isPlacement ? typeof id === "string" && id !== "" : id === undefined) return undefined;
    return isPlacement ? "it placed a hold, but its answer has no id" : "it has an id, but placed no hold";
  }
  if (ok !== false) return "it is JSON, but not an answer";
  if (!(REASONS as readonly unknown[]).includes(reason)) return "its reason is not a known one";
  return detail === undefined || typeof detail === "string" ? undefined : "its detail is not text";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The text that `readAnswer` reads. */
export function toAnswerText({
  answer,
  windowMs,
  salt,
}: Pick<KeyRecord, "answer" | "windowMs" | "salt">): string {
  return JSON.stringify({ ...answer, windowMs, salt });
}

export function readCommitment(cells: Cells): KeptCommitment {
  return {
    namespace: cells.text("namespace"),
    id: cells.text("id"),
    resource: readName(cells, "resource"),
    // Empty once it is erased.
    requester: cells.text("requester", MAX_PART_BYTES) === "" ? "" : readName(cells, "requester"),
    requesterSalt: cells.text("requester_salt"),
    units: cells.whole("units", 1),
    placedAt: cells.time("placed_at"),
    expiresAt: cells.time("expires_at"),
    state: cells.oneOf("state", COMMITMENT_STATES),
    endedAt: cells.optionalTime("ended_at"),
    confirmedUnits: cells.optionalWhole("confirmed_units", 1),
    occupied: cells.whole("occupied", 0),
    events: cells.whole("events", 1),
    lastHash: cells.matching("last_hash", HASH, "a SHA-256 in hexadecimal"),
  };
}

export function readResource(cells: Cells): KeptResource {
  return {
    namespace: cells.text("namespace"),
    name: readName(cells, "name"),
    capacity: cells.whole("capacity", 0),
    taken: cells.whole("taken", 0),
    state: cells.oneOf("state", RESOURCE_STATES),
    isDeclared: cells.flag("is_declared"),
    events: cells.whole("events", 0),
    lastHash: cells.matching("last_hash", HASH_OR_NONE, "a SHA-256 in hexadecimal, or empty"),
  };
}

export function readEvent(cells: Cells): JournalEvent {
  const event = {
    namespace: cells.text("namespace"),
    subject: cells.text("subject"),
    number: cells.whole("number", 1),
    resource: cells.optionalText("resource"),
    entry: cells.whole("entry", 0),
    kind: cells.oneOf("kind", EVENT_KINDS),
    at: cells.time("at"),
    keyId: cells.optionalText("key_id"),
    detail: cells.text("detail"),
    previous: cells.matching("previous", HASH_OR_NONE, "a SHA-256 in hexadecimal, or empty"),
    hash: cells.matching("hash", HASH, "a SHA-256 in hexadecimal"),
    checkpoint: cells.text("checkpoint"),
  };
  if (!isObject(cells.json("detail"))) cells.wrong("detail", "it is JSON, but not an object");
  return event;
}

export function readCheckpoint(cells: Cells): Checkpoint {
  return {
    namespace: cells.text("namespace"),
    id: cells.text("id"),
    at: cells.time("at"),
    events: cells.whole("events", 1),
    digest: cells.matching("digest", HASH, "a SHA-256 in hexadecimal"),
  };
}

/** The id of the transaction that wrote a key. It is needed only if the database did not answer a COMMIT. */
export function readWriter(cells: Cells, column: string): string {
  return cells.matching(column, WRITER, "a random UUID");
}

function readName(cells: Cells, column: string): string {
  const name = cells.text(column, MAX_PART_BYTES);
  return isName(name) ? name : cells.wrong(column, `it must be ${NAME}`);
}
