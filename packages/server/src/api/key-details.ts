/** One key over HTTP: its record, its events, the HTTP response that it stored, and the derived keys of its effects. */
import { NevertwiceError } from "nevertwice";
import { isOperator } from "../access.ts";
import type { Context } from "../context.ts";
import { RECORD_SCHEMA, recordJson } from "./record-json.ts";
import { RESPONSE_SCHEMA, responseJson } from "./response-json.ts";
import type { ApiAnswer, ApiRoute, JsonSchema } from "./route.ts";
import { EFFECT_NAMES, findRecord, ID_PARAMETER } from "./subjects.ts";

export function keyDetailsRoutes(context: Context): readonly ApiRoute[] {
  return [showRoute(context), derivedKeysRoute(context)];
}

const EVENT_SCHEMA: JsonSchema = {
  type: "object",
  required: ["at", "kind", "detail"],
  properties: { at: { type: "integer" }, kind: { type: "string" }, detail: { type: "object" } },
  additionalProperties: false,
};

function showRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/keys/{id}",
    id: "showKey",
    tag: "keys",
    summary: "Read one key: its record and the events that this server observed",
    description:
      "Only operators get the outcome and the whole key. The events are those of this server, and are lost when it stops.",
    roles: ["operator", "auditor"],
    params: ID_PARAMETER,
    answers: {
      200: {
        description: "The key.",
        schema: {
          type: "object",
          required: ["record", "events"],
          properties: {
            record: RECORD_SCHEMA,
            events: { type: "array", items: EVENT_SCHEMA },
            response: RESPONSE_SCHEMA,
          },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-found"],
    async handle({ params, caller }) {
      const found = await findRecord(context, caller, params.id as string);
      if (found === undefined) return notFound();
      const { record } = found;
      const isWhole = isOperator(caller);
      const events = context.live.keyEvents(caller.namespace, record.keyHash);
      const response = isWhole ? responseJson(record.outcome) : undefined;
      return {
        status: 200,
        body: { record: recordJson(record, isWhole), events, ...(response && { response }) },
      };
    },
  };
}

/** A POST, although it changes nothing: an address would be logged, and the names with it. */
function derivedKeysRoute(context: Context): ApiRoute {
  return {
    method: "POST",
    path: "/v1/keys/{id}/derived-keys",
    id: "deriveKeys",
    tag: "keys",
    summary: "Derive the keys of a key's effects, to look them up in another system",
    description: "The server returns the same keys as the work got for these names on every attempt.",
    roles: ["operator"],
    params: ID_PARAMETER,
    body: {
      type: "object",
      required: ["names"],
      properties: { names: { ...EFFECT_NAMES, minItems: 1 } },
      additionalProperties: false,
    },
    answers: {
      200: {
        description: "The derived keys, by name.",
        schema: {
          type: "object",
          required: ["derivedKeys"],
          properties: { derivedKeys: { type: "object", additionalProperties: { type: "string" } } },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-found"],
    async handle({ params, caller, body }) {
      const found = await findRecord(context, caller, params.id as string);
      if (found === undefined) return notFound();
      const guard = context.guard(caller.namespace);
      const { names } = body as { readonly names: readonly string[] };
      const derivedKeys = Object.fromEntries(
        names.map((name) => [name, guard.deriveKey(found.subject, name)]),
      );
      return { status: 200, body: { derivedKeys } };
    },
  };
}

export function notFound(): ApiAnswer {
  return { problem: new NevertwiceError("not-found", "there is no key with this id.") };
}
