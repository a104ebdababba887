/**
 * Marks of events, for consumers in any language: has an event been seen before? Keys are in bodies, never in addresses,
 * where logs would keep them.
 */
import { eventKey, type Subject } from "nevertwice";
import type { Caller } from "../access.ts";
import type { Context } from "../context.ts";
import type { ApiRoute, JsonSchema } from "./route.ts";
import {
  callerScope,
  durationSchema,
  partSchema,
  SCOPE_SCHEMA,
  tokenInStore,
  tokenSchema,
} from "./subjects.ts";

/** Longer than most brokers redeliver a message. */
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
  source: partSchema("The sender of the event, together with id."),
  id: partSchema("The id that the sender gave the event."),
  key: partSchema("A key that you choose, instead of source and id."),
  operation: partSchema(
    `The consumer of the event: each operation has its own mark. Default "${OPERATION}".`,
  ),
  scope: SCOPE_SCHEMA,
};

const eventBodySchema = (more: Readonly<Record<string, JsonSchema>> = {}): JsonSchema => ({
  type: "object",
  properties: { ...SUBJECT, ...more },
  additionalProperties: false,
  oneOf: [
    { required: ["source", "id"], properties: { key: false } },
    { required: ["key"], properties: { source: false, id: false } },
  ],
});

const flagSchema = (name: string): JsonSchema => ({
  type: "object",
  required: [name],
  properties: { [name]: { type: "boolean" } },
  additionalProperties: false,
});

const ABOUT = { tag: "events", roles: ["service"], method: "POST" } as const;

export function eventsRoutes(context: Context): readonly ApiRoute[] {
  return [
    {
      ...ABOUT,
      path: "/v1/events",
      id: "markEvent",
      summary: "Mark an event as seen",
      description:
        "Of any number of callers, exactly one gets first: true. A call waits for another mark of the same event that is being written.",
      body: eventBodySchema({
        value: { description: "Stored with the mark." },
        retentionMs: durationSchema(1, "How long the mark is stored; default 30 days."),
        token: tokenSchema(
          "A token that you make, so that you can repeat a mark whose response was lost: the token that made the mark gets first: true again. It must be hard to guess.",
        ),
      }),
      answers: {
        201: { description: "Marked; the event was not seen before.", schema: flagSchema("first") },
        200: { description: "The event was seen before.", schema: flagSchema("first") },
      },
      problems: ["key-invalid", "pending", "unknown", "token-spent", "store-full"],
      async handle({ body, caller }) {
        const {
          value,
          retentionMs = EVENT_RETENTION_MS,
          token,
        } = body as {
          readonly value?: unknown;
          readonly retentionMs?: number;
          readonly token?: string;
        };
        const mark = {
          ...eventSubject(body as EventBody, caller),
          value,
          retentionMs,
          ...(token !== undefined && { token: tokenInStore(caller, token) }),
        };
        const first = await context.guard(caller.namespace, "events").mark(mark);
        return { status: first ? 201 : 200, body: { first } };
      },
    },
    {
      ...ABOUT,
      path: "/v1/events/seen",
      id: "seenEvent",
      summary: "Read whether an event was seen",
      description:
        "A mark that is being written does not count yet. Two callers may both read false before one of them marks the event; use a claim if that matters.",
      body: eventBodySchema(),
      answers: { 200: { description: "Whether the event was seen.", schema: flagSchema("seen") } },
      problems: ["key-invalid"],
      async handle({ body, caller }) {
        const seen = await context
          .guard(caller.namespace, "events")
          .seen(eventSubject(body as EventBody, caller));
        return { status: 200, body: { seen } };
      },
    },
    {
      ...ABOUT,
      path: "/v1/events/release",
      id: "releaseEvent",
      summary: "Remove a mark",
      body: eventBodySchema(),
      answers: { 200: { description: "Whether there was a mark.", schema: flagSchema("released") } },
      problems: ["key-invalid"],
      async handle({ body, caller }) {
        const released = await context
          .guard(caller.namespace, "events")
          .release(eventSubject(body as EventBody, caller));
        return { status: 200, body: { released } };
      },
    },
  ];
}

function eventSubject(body: EventBody, caller: Caller): Subject {
  const { source = "", id = "", key = eventKey({ source, id }), operation = OPERATION, scope } = body;
  return { operation, key, scope: callerScope(caller, scope) };
}
