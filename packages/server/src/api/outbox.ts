/**
 * The outbox over HTTP: operators see which messages are not delivered yet, and retry, park or discard them. Bodies and
 * headers of messages are never shown.
 */
import { NevertwiceError } from "nevertwice";
import type { ListQuery, MessageState, MessageView, Outbox } from "nevertwice/outbox";
import { isOperator, type Role } from "../access.ts";
import type { Context } from "../context.ts";
import type { MessageJson, OutboxFiguresJson } from "./api-json.ts";
import { abbreviateKey } from "./record-json.ts";
import type { ApiRequest, ApiRoute, JsonSchema, Parameter } from "./route.ts";
import { DONE_SCHEMA } from "./subjects.ts";

const OPERATOR: readonly Role[] = ["operator"];
const OPERATOR_OR_AUDITOR: readonly Role[] = ["operator", "auditor"];

const STATES: readonly MessageState[] = ["waiting", "behind", "delivering", "parked"];
/** No database can store the character U+0000 in every text, so no message has it. */
const NAME: JsonSchema = { type: "string", minLength: 1, maxLength: 1_024, pattern: "^[^\\u0000]*$" };
const TEXT: JsonSchema = { type: "string" };
const TEXT_OR_NULL: JsonSchema = { type: ["string", "null"] };
const COUNT: JsonSchema = { type: "integer", minimum: 0 };

const MILLISECONDS = "The database's clock, in milliseconds since the epoch.";

const MESSAGE: JsonSchema = {
  type: "object",
  required: [
    "id",
    "topic",
    "key",
    "scope",
    "state",
    "createdAt",
    "attempts",
    "dueAt",
    "parkedAt",
    "lastError",
  ],
  properties: {
    id: TEXT,
    topic: TEXT,
    key: {
      ...TEXT_OR_NULL,
      description: "Messages of one key are delivered in order. Auditors get its first characters.",
    },
    scope: TEXT_OR_NULL,
    state: {
      enum: STATES,
      description:
        "waiting: due, or its next attempt is planned. behind: an older message of its key comes first. delivering: a relay has claimed it. parked: its attempts are used up, or an operator parked it.",
    },
    createdAt: { type: "integer", description: MILLISECONDS },
    attempts: COUNT,
    dueAt: {
      type: ["integer", "null"],
      description:
        "When the next attempt is due, or when the lease of the present one ends. Null for a message that is due now, parked or behind.",
    },
    parkedAt: { type: ["integer", "null"], description: MILLISECONDS },
    lastError: {
      ...TEXT_OR_NULL,
      description: "Why the last attempt failed. Only operators get it, because it can quote the receiver.",
    },
  },
  additionalProperties: false,
};

const FIGURES: JsonSchema = {
  type: "object",
  required: [
    "undelivered",
    "waiting",
    "due",
    "delivering",
    "behind",
    "parked",
    "oldestMs",
    "topics",
    "countedUpTo",
  ],
  properties: {
    undelivered: COUNT,
    waiting: { ...COUNT, description: "Messages that are due, or whose next attempt is planned." },
    due: { ...COUNT, description: "Messages that a relay could take now." },
    delivering: COUNT,
    behind: COUNT,
    parked: COUNT,
    oldestMs: {
      type: ["integer", "null"],
      description: "The age of the oldest message that is neither parked nor behind another one.",
    },
    topics: {
      type: "array",
      description: "The topics of the oldest messages, most frequent first; at most 20.",
      items: {
        type: "object",
        required: ["topic", "messages"],
        properties: { topic: TEXT, messages: COUNT },
        additionalProperties: false,
      },
    },
    countedUpTo: {
      ...COUNT,
      description: "Each number is counted up to this: with more messages, it is this number.",
    },
  },
  additionalProperties: false,
};

const MESSAGE_ID: Readonly<Record<string, Parameter>> = {
  id: {
    schema: { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$" },
    description: "The id from a list, which is also the id that receivers get.",
  },
};

/** Throws `not-supported` if the server has no database with an outbox. */
function requireOutbox(context: Context, { caller }: Pick<ApiRequest, "caller">): Outbox {
  const outbox = context.outbox(caller.namespace);
  if (outbox !== undefined) return outbox;
  throw new NevertwiceError(
    "not-supported",
    "the store of this server has no outbox; start the server with --outbox-store and the URL of the application's database.",
  );
}

export function outboxRoutes(context: Context): readonly ApiRoute[] {
  return [
    listRoute(context),
    figuresRoute(context),
    ...ACTIONS.map((action) => actionRoute(context, action)),
  ];
}

function listRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/outbox",
    id: "listMessages",
    tag: "outbox",
    summary: "List undelivered messages, oldest first, without their bodies",
    roles: OPERATOR_OR_AUDITOR,
    query: {
      state: {
        schema: { enum: STATES },
        description:
          "Only messages in this state. `waiting`: due, or its next attempt is planned. `behind`: an older message of its key comes first. `delivering`: a relay has claimed it. `parked`: its attempts are used up, or an operator parked it.",
      },
      topic: { schema: NAME, description: "Only messages of this topic." },
      key: { schema: NAME, description: "Only messages of this key. Auditors cannot use it." },
      limit: {
        schema: { type: "integer", minimum: 1, maximum: 1_000, default: 100 },
        description: "The most messages on a page.",
      },
      after: {
        schema: { type: "string", pattern: "^[0-9]{1,18}$" },
        description: "The `next` of the previous page.",
      },
    },
    answers: {
      200: {
        description:
          "A page. With a state or a topic it can be short, or empty, and still have a `next`: more messages are left to search.",
        schema: {
          type: "object",
          required: ["messages", "next"],
          properties: { messages: { type: "array", items: MESSAGE }, next: TEXT_OR_NULL },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-supported"],
    async handle(request) {
      const outbox = requireOutbox(context, request);
      const query = request.query as Partial<ListQuery>;
      const isWhole = isOperator(request.caller);
      // Otherwise an auditor could guess a key, of which only the first characters are shown.
      if (!isWhole && query.key !== undefined)
        throw new NevertwiceError("not-authorized", "only operators may search for a key.");
      const { messages, next = null } = await outbox.list(query);
      return { status: 200, body: { messages: messages.map((one) => toMessageJson(one, isWhole)), next } };
    },
  };
}

function figuresRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/outbox/figures",
    id: "outboxFigures",
    tag: "outbox",
    summary: "Count the undelivered messages by state",
    roles: OPERATOR_OR_AUDITOR,
    answers: { 200: { description: "The figures.", schema: FIGURES } },
    problems: ["not-supported"],
    async handle(request) {
      const { oldestMs = null, ...figures } = await requireOutbox(context, request).figures();
      return { status: 200, body: { ...figures, oldestMs } satisfies OutboxFiguresJson };
    },
  };
}

const ACTIONS = [
  {
    verb: "retry",
    id: "retryMessage",
    summary: "Make a message due now",
    description: "Its attempts start from 1 again. A parked message is no longer parked.",
    done: "The message is due, after the older messages of its key.",
    refused: "no undelivered message has this id, or a relay is delivering it now; list the messages again.",
  },
  {
    verb: "park",
    id: "parkMessage",
    summary: "Keep a message, and the later ones of its key, from being delivered",
    description: "It stays parked until it is retried or discarded.",
    done: "The message is parked.",
    refused:
      "no undelivered message has this id, it is parked already, or a relay is delivering it now; list the messages again.",
  },
  {
    verb: "discard",
    id: "discardMessage",
    summary: "Delete a message without delivering it",
    description: "The next message of its key follows. This cannot be undone.",
    done: "The message is deleted.",
    refused: "no undelivered message has this id, or a relay is delivering it now; list the messages again.",
  },
] as const;

function actionRoute(context: Context, action: (typeof ACTIONS)[number]): ApiRoute {
  const { verb, id, summary, description, done, refused } = action;
  return {
    method: "POST",
    path: `/v1/outbox/{id}/${verb}`,
    id,
    tag: "outbox",
    summary,
    description,
    roles: OPERATOR,
    params: MESSAGE_ID,
    body: { type: "object", properties: {}, additionalProperties: false },
    bodyIsOptional: true,
    answers: { 200: { description: done, schema: DONE_SCHEMA } },
    problems: ["concurrent-modification", "not-supported"],
    async handle(request) {
      const message = request.params.id as string;
      const outbox = requireOutbox(context, request);
      if (await outbox[verb](message)) return { status: 200, body: { id: message } };
      throw new NevertwiceError("concurrent-modification", refused);
    },
  };
}

function toMessageJson(message: MessageView, isWhole: boolean): MessageJson {
  const { id, topic, key, scope, state, createdAt, attempts, dueAt, parkedAt, lastError } = message;
  return {
    id,
    topic,
    key: key === undefined ? null : isWhole ? key : abbreviateKey(key),
    scope: scope ?? null,
    state,
    createdAt,
    attempts,
    dueAt: dueAt ?? null,
    parkedAt: parkedAt ?? null,
    lastError: (isWhole ? lastError : undefined) ?? null,
  };
}
