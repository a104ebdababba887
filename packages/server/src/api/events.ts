/** Events for consumers in any language: which were seen before. No key stands in an address, where logs would keep it. */
import { eventKey, type Subject } from "nevertwice";
import type { Caller } from "../access.ts";
import type { Context } from "../context.ts";
import type { JsonSchema, Route } from "./route.ts";
import { durationSchema, partSchema, SCOPE_SCHEMA, scopeOf } from "./subjects.ts";

/** Longer than most brokers redeliver. */
export const EVENT_RETENTION_MS = 30 * 86_400_000;
const OPERATION = "event";

interface EventBody {
  readonly source?: string;
  readonly id?: string;
  readonly key?: string;
  readonly operation?: string;
  readonly scope?: string;
}

const SUBJECT: Readonly<Record<string, JsonSchema>> = {
  source: partSchema("Who sent the event; with id."),
  id: partSchema("The id that its sender gave it."),
  key: partSchema("A key of your own, instead of source and id."),
  operation: partSchema(
    `What it is seen for: one mark for each of its consumers. "${OPERATION}" if not given.`,
  ),
  scope: SCOPE_SCHEMA,
};

const bodyOf = (more: Readonly<Record<string, JsonSchema>> = {}): JsonSchema => ({
  type: "object",
  properties: { ...SUBJECT, ...more },
  additionalProperties: false,
  oneOf: [
    { required: ["source", "id"], not: { required: ["key"] } },
    { required: ["key"], not: { anyOf: [{ required: ["source"] }, { required: ["id"] }] } },
  ],
});

const saying = (name: string): JsonSchema => ({
  type: "object",
  required: [name],
  properties: { [name]: { type: "boolean" } },
  additionalProperties: false,
});

const ABOUT = { tag: "events", roles: ["service"], method: "POST" } as const;

export function eventsRoutes(context: Context): readonly Route[] {
  return [
    {
      ...ABOUT,
      path: "/v1/events",
      id: "markEvent",
      summary: "Mark an event as seen",
      description:
        "Of any number who mark it, one is told that it was the first. A mark waits for another one that is being written.",
      body: bodyOf({
        value: { description: "Kept with the mark." },
        retentionMs: durationSchema(1, "How long it counts as seen; 30 days if not given."),
      }),
      answers: {
        201: { description: "Marked, and not seen before.", schema: saying("first") },
        200: { description: "Seen before.", schema: saying("first") },
      },
      problems: ["key-invalid", "pending", "unknown", "store-full"],
      async handle({ body, caller }) {
        const { value, retentionMs = EVENT_RETENTION_MS } = body as {
          readonly value?: unknown;
          readonly retentionMs?: number;
        };
        const mark = { ...subjectOf(body as EventBody, caller), value, retentionMs };
        const first = await context.guard(caller.namespace).mark(mark);
        return { status: first ? 201 : 200, body: { first } };
      },
    },
    {
      ...ABOUT,
      path: "/v1/events/seen",
      id: "seenEvent",
      summary: "Ask whether an event was seen",
      description:
        "What is under way is not seen yet. Between this and a mark another may ask too: claim if that matters.",
      body: bodyOf(),
      answers: { 200: { description: "Whether it was.", schema: saying("seen") } },
      problems: ["key-invalid"],
      async handle({ body, caller }) {
        const seen = await context.guard(caller.namespace).seen(subjectOf(body as EventBody, caller));
        return { status: 200, body: { seen } };
      },
    },
    {
      ...ABOUT,
      path: "/v1/events/release",
      id: "releaseEvent",
      summary: "Take a mark back",
      body: bodyOf(),
      answers: { 200: { description: "Whether there was one.", schema: saying("released") } },
      problems: ["key-invalid"],
      async handle({ body, caller }) {
        const released = await context.guard(caller.namespace).release(subjectOf(body as EventBody, caller));
        return { status: 200, body: { released } };
      },
    },
  ];
}

function subjectOf(body: EventBody, caller: Caller): Subject {
  const { source = "", id = "", key = eventKey({ source, id }), operation = OPERATION, scope } = body;
  return { operation, key, scope: scopeOf(caller, scope) };
}
