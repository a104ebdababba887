/** Claims for services in any language: the work is done there, and only its record is kept here. */
import { createHash, randomBytes } from "node:crypto";
import { type AbandonRequest, NevertwiceError } from "nevertwice";
import type { ClaimAnswered, ClaimAsked } from "nevertwice/claims";
import type { Caller } from "../access.ts";
import type { Context } from "../context.ts";
import { OUTCOME_SCHEMA, outcomeJson } from "./json.ts";
import { RECORD_SCHEMA, recordJson } from "./records.ts";
import type { ApiAnswer, JsonSchema, Route } from "./route.ts";
import {
  DONE_SCHEMA,
  durationSchema,
  ID_PARAMETER,
  isWithin,
  partSchema,
  recordIn,
  SCOPE_SCHEMA,
  scopeOf,
} from "./subjects.ts";

const TOKEN_SCHEMA: JsonSchema = {
  type: "string",
  minLength: 16,
  maxLength: 200,
  description: "The token of the claim. It owns the claim, for callers with this access token's scope.",
};
const LEASE_SCHEMA = durationSchema(10, "How long the claim holds unless it is renewed.");
const RETENTION_SCHEMA = durationSchema(1, "How long the outcome answers for the key.");

interface ClaimBody extends Omit<ClaimAsked, "key"> {
  readonly key: string;
  readonly deriveKeys?: readonly string[];
}

interface HeldBody {
  readonly token: string;
  readonly leaseMs?: number;
  readonly retentionMs?: number;
}

export function claimsRoutes(context: Context): readonly Route[] {
  return [
    claimRoute(context),
    readRoute(context),
    completeRoute(context),
    abandonRoute(context),
    renewRoute(context),
  ];
}

const CLAIM_BODY: JsonSchema = {
  type: "object",
  required: ["operation", "key"],
  properties: {
    operation: partSchema("What the key is for: a label of your own."),
    key: partSchema("Your name for this piece of work."),
    scope: SCOPE_SCHEMA,
    fingerprint: { description: "What the request means: the same key with another meaning is a conflict." },
    leaseMs: LEASE_SCHEMA,
    retentionMs: RETENTION_SCHEMA,
    onLapsed: {
      enum: ["takeover", "hold"],
      description:
        "Whether a claim that went silent is taken over by the next, or held for an operator's decision.",
    },
    token: {
      ...TOKEN_SCHEMA,
      description:
        "A token of your own, so that a claim whose answer was lost can be sent again. Nobody may guess it.",
    },
    deriveKeys: {
      type: "array",
      maxItems: 20,
      items: partSchema("The name of an effect."),
      description: "For each name a key to hand to another system, the same on every attempt.",
    },
  },
  additionalProperties: false,
};

const CLAIMED_SCHEMA: JsonSchema = {
  type: "object",
  required: ["id", "token", "fence", "number", "tookOver", "leaseMs"],
  properties: {
    id: { type: "string" },
    token: { type: "string", description: "Renew, complete and abandon with it." },
    fence: { type: "integer", description: "Grows with every claim of this key." },
    number: { type: "integer", description: "1 for the first attempt." },
    tookOver: {
      type: "boolean",
      description: "An earlier attempt went silent: whether it had an effect is unknown.",
    },
    leaseMs: { type: "integer" },
    derivedKeys: { type: "object", additionalProperties: { type: "string" } },
  },
  additionalProperties: false,
};

function claimRoute(context: Context): Route {
  return {
    method: "POST",
    path: "/v1/claims",
    id: "claim",
    tag: "claims",
    summary: "Claim a key before doing its work",
    description: "201: the work is yours to do. 200: it is done, and this is its outcome.",
    roles: ["service"],
    body: CLAIM_BODY,
    answers: {
      201: { description: "The claim is yours until its lease ends.", schema: CLAIMED_SCHEMA },
      200: {
        description: "The work is done.",
        schema: {
          type: "object",
          required: ["id", "outcome"],
          properties: { id: { type: "string" }, outcome: OUTCOME_SCHEMA },
          additionalProperties: false,
        },
      },
    },
    problems: ["key-invalid", "fingerprint-invalid", "pending", "unknown", "conflict", "store-full"],
    async handle({ body, caller }) {
      const {
        scope,
        token = randomBytes(24).toString("base64url"),
        deriveKeys,
        ...asked
      } = body as ClaimBody;
      const answer = await context
        .claims(caller.namespace)
        .claim({ ...asked, scope: scopeOf(caller, scope), token: boundTo(caller, token) });
      return answer.status === "new" ? claimed(answer, token, deriveKeys) : refused(answer);
    },
  };
}

function claimed(
  answer: Extract<ClaimAnswered, { readonly status: "new" }>,
  token: string,
  names: readonly string[] | undefined,
): ApiAnswer {
  const { id, fence, number, tookOver, leaseMs, deriveKey } = answer;
  const derivedKeys = names && Object.fromEntries(names.map((name) => [name, deriveKey(name)]));
  const body = { id, token, fence, number, tookOver, leaseMs, ...(derivedKeys && { derivedKeys }) };
  return { status: 201, body };
}

function refused(answer: Exclude<ClaimAnswered, { readonly status: "new" }>): ApiAnswer {
  const { id } = answer;
  switch (answer.status) {
    case "completed":
      return { status: 200, body: { id, outcome: outcomeJson(answer.outcome) } };
    case "pending":
      return {
        problem: new NevertwiceError("pending", "another attempt holds the claim; ask again later."),
        more: { id, leaseLeftMs: Math.ceil(answer.leaseLeftMs) },
      };
    case "unknown":
      return {
        problem: new NevertwiceError(
          "unknown",
          "an earlier attempt went silent, and whether it had an effect is unknown; an operator decides.",
        ),
        more: { id, fence: answer.fence },
      };
    case "conflict":
      return {
        problem: new NevertwiceError(
          "conflict",
          "the key was used for something else: the fingerprints differ.",
        ),
        more: { id },
      };
  }
}

function readRoute(context: Context): Route {
  return {
    method: "GET",
    path: "/v1/claims/{id}",
    id: "readClaim",
    tag: "claims",
    summary: "Read one of your own claims",
    roles: ["service"],
    params: ID_PARAMETER,
    answers: { 200: { description: "The claim as it stands.", schema: RECORD_SCHEMA } },
    problems: ["not-found"],
    async handle({ params, caller }) {
      const found = await recordIn(context, caller, params.id as string);
      if (found === undefined || !isWithin(caller, found.record.scope)) {
        return { problem: new NevertwiceError("not-found", "you have no claim with this id.") };
      }
      return { status: 200, body: recordJson(found.record, true) };
    },
  };
}

/** What the three routes of a claim that is held have in common. */
function heldRoute(
  own: Pick<Route, "id" | "summary" | "description"> & {
    readonly verb: string;
    readonly properties: Readonly<Record<string, JsonSchema>>;
    /** What is required besides the token, one of these. */
    readonly oneOf?: readonly JsonSchema[];
    readonly done: string;
    act(id: string, token: string, body: HeldBody, caller: Caller): Promise<boolean>;
  },
): Route {
  const { verb, properties, oneOf, done, act, ...rest } = own;
  return {
    ...rest,
    method: "POST",
    path: `/v1/claims/{id}/${verb}`,
    tag: "claims",
    roles: ["service"],
    params: ID_PARAMETER,
    body: {
      type: "object",
      required: ["token"],
      properties: { token: TOKEN_SCHEMA, ...properties },
      additionalProperties: false,
      ...(oneOf && { oneOf }),
    },
    answers: { 200: { description: done, schema: DONE_SCHEMA } },
    problems: ["lease-lost"],
    async handle({ params, body, caller }) {
      const id = params.id as string;
      const held = body as HeldBody;
      if (await act(id, boundTo(caller, held.token), held, caller)) return { status: 200, body: { id } };
      return {
        problem: new NevertwiceError(
          "lease-lost",
          "the claim is not this token's: it was completed, given up or taken over, or there is none.",
        ),
      };
    },
  };
}

function completeRoute(context: Context): Route {
  return heldRoute({
    verb: "complete",
    id: "completeClaim",
    summary: "Keep the outcome of the work",
    description: "From now on it answers for the key. The same call again answers the same.",
    properties: {
      value: { description: "What the work answered." },
      error: { description: "What it failed with, for good." },
      retentionMs: RETENTION_SCHEMA,
    },
    oneOf: [{ required: ["value"] }, { required: ["error"] }],
    done: "The outcome is kept.",
    act(id, token, { token: _, ...content }, { namespace }) {
      return context.claims(namespace).complete({ id, token, ...(content as { readonly value: unknown }) });
    },
  });
}

function abandonRoute(context: Context): Route {
  return heldRoute({
    verb: "abandon",
    id: "abandonClaim",
    summary: "Give the claim up",
    properties: {
      as: {
        enum: ["released", "unknown", "unrun"],
        description:
          "released (the default): nothing was done. unknown: nobody knows. unrun: the work never began, so the key is as the claim found it.",
      },
    },
    done: "The claim is given up.",
    act(id, token, body, { namespace }) {
      const { as = "released" } = body as { readonly as?: AbandonRequest["as"] };
      return context.claims(namespace).abandon({ id, token, as });
    },
  });
}

function renewRoute(context: Context): Route {
  return heldRoute({
    verb: "renew",
    id: "renewClaim",
    summary: "Hold the claim longer",
    properties: { leaseMs: LEASE_SCHEMA },
    done: "The lease starts anew.",
    act: (id, token, { leaseMs }, { namespace }) => context.claims(namespace).renew({ id, token, leaseMs }),
  });
}

/**
 * The token as the store knows it. It is another one for every scope, so a claim's token that fell into wrong hands
 * does nothing without an access token of the same scope; and what is stored is no use to whoever reads the store.
 */
function boundTo({ namespace, scope }: Caller, token: string): string {
  return createHash("sha256")
    .update(JSON.stringify([namespace, scope, token]))
    .digest("base64url");
}
