/** Claims over HTTP, for services in any language: the client does the work, and the server keeps its record. */
import { randomBytes } from "node:crypto";
import { type AbandonRequest, NevertwiceError } from "nevertwice";
import type { ClaimAsked } from "nevertwice/claims";
import type { Caller } from "../access.ts";
import type { Context } from "../context.ts";
import { CLAIMED_SCHEMA, newClaimAnswer, noClaimAnswer, unansweredClaim } from "./claim-answers.ts";
import { OUTCOME_SCHEMA, RECORD_SCHEMA, recordJson } from "./record-json.ts";
import type { ApiRoute, JsonSchema } from "./route.ts";
import {
  callerScope,
  DONE_SCHEMA,
  durationSchema,
  EFFECT_NAMES,
  findRecord,
  ID_PARAMETER,
  isWithin,
  partSchema,
  SCOPE_SCHEMA,
  tokenInStore,
  tokenSchema,
} from "./subjects.ts";

const HELD_TOKEN_SCHEMA = tokenSchema(
  "The token of the claim. It works only with an access token of the same scope.",
);
const LEASE_SCHEMA = durationSchema(10, "How long the claim is valid unless it is renewed.");
const RETENTION_SCHEMA = durationSchema(1, "How long the outcome is stored and answers for the key.");

interface ClaimBody extends Omit<ClaimAsked, "key"> {
  readonly key: string;
  readonly deriveKeys?: readonly string[];
}

interface HeldClaimBody {
  readonly token: string;
  readonly leaseMs?: number;
  readonly retentionMs?: number;
}

export function claimsRoutes(context: Context): readonly ApiRoute[] {
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
    operation: partSchema("What the key is for: a label that you choose."),
    key: partSchema("Your name for this piece of work."),
    scope: SCOPE_SCHEMA,
    fingerprint: {
      description: "What the request means. The same key with another fingerprint is a conflict.",
    },
    leaseMs: LEASE_SCHEMA,
    retentionMs: RETENTION_SCHEMA,
    onLapsed: {
      enum: ["takeover", "hold"],
      description:
        "What happens to a claim whose lease ended: the next claim takes it over, or it is held for an operator's decision.",
    },
    token: tokenSchema(
      "A token that you make, so that you can repeat a claim whose response was lost. It must be hard to guess. After you abandon a claim, use a new one.",
    ),
    deriveKeys: {
      ...EFFECT_NAMES,
      description:
        "For each name, the server returns a key for another system. It is the same on every attempt.",
    },
  },
  additionalProperties: false,
};

function claimRoute(context: Context): ApiRoute {
  return {
    method: "POST",
    path: "/v1/claims",
    id: "claim",
    tag: "claims",
    summary: "Claim a key before doing its work",
    description: "201: the claim is yours; do the work. 200: the work is done; the response has its outcome.",
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
    problems: [
      "key-invalid",
      "fingerprint-invalid",
      "pending",
      "unknown",
      "token-spent",
      "conflict",
      "store-full",
    ],
    async handle({ body, caller }) {
      const { scope, token: own, deriveKeys, ...asked } = body as ClaimBody;
      const token = own ?? randomBytes(24).toString("base64url");
      const claim = {
        ...asked,
        scope: callerScope(caller, scope),
        token: tokenInStore(caller, token),
        // A caller whose response is lost never learns a token that was made here, so only the server can give it back.
        giveBack: own === undefined,
      };
      try {
        const answer = await context.claims(caller.namespace).claim(claim);
        return answer.status === "new" ? newClaimAnswer(answer, token, deriveKeys) : noClaimAnswer(answer);
      } catch (error) {
        return unansweredClaim(error);
      }
    },
  };
}

function readRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/claims/{id}",
    id: "readClaim",
    tag: "claims",
    summary: "Read one of your claims",
    roles: ["service"],
    params: ID_PARAMETER,
    answers: { 200: { description: "The claim.", schema: RECORD_SCHEMA } },
    problems: ["not-found"],
    async handle({ params, caller }) {
      const found = await findRecord(context, caller, params.id as string);
      if (found === undefined || !isWithin(caller, found.record.scope)) {
        return { problem: new NevertwiceError("not-found", "you have no claim with this id.") };
      }
      return { status: 200, body: recordJson(found.record, true) };
    },
  };
}

/** The shared part of the three routes that act on a held claim. */
function heldRoute(
  own: Pick<ApiRoute, "id" | "summary" | "description"> & {
    readonly verb: string;
    readonly properties: Readonly<Record<string, JsonSchema>>;
    /** Alternatives of what the body requires in addition to the token. */
    readonly oneOf?: readonly JsonSchema[];
    readonly done: string;
    act(id: string, token: string, body: HeldClaimBody, caller: Caller): Promise<boolean>;
  },
): ApiRoute {
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
      properties: { token: HELD_TOKEN_SCHEMA, ...properties },
      additionalProperties: false,
      ...(oneOf && { oneOf }),
    },
    answers: { 200: { description: done, schema: DONE_SCHEMA } },
    problems: ["lease-lost"],
    async handle({ params, body, caller }) {
      const id = params.id as string;
      const held = body as HeldClaimBody;
      if (await act(id, tokenInStore(caller, held.token), held, caller)) return { status: 200, body: { id } };
      return {
        problem: new NevertwiceError(
          "lease-lost",
          "this token does not hold the claim: the claim was completed, abandoned or taken over, or it does not exist.",
        ),
      };
    },
  };
}

function completeRoute(context: Context): ApiRoute {
  return heldRoute({
    verb: "complete",
    id: "completeClaim",
    summary: "Store the outcome of the work",
    description: "From now on the outcome answers for the key. Repeating the call is safe.",
    properties: {
      value: { description: "The result of the work." },
      error: { description: "The error of the work, if it failed permanently." },
      retentionMs: RETENTION_SCHEMA,
    },
    oneOf: [{ required: ["value"] }, { required: ["error"] }],
    done: "The outcome is stored.",
    act(id, token, { token: _, ...content }, { namespace }) {
      return context.claims(namespace).complete({ id, token, ...(content as { readonly value: unknown }) });
    },
  });
}

function abandonRoute(context: Context): ApiRoute {
  return heldRoute({
    verb: "abandon",
    id: "abandonClaim",
    summary: "Abandon the claim",
    properties: {
      as: {
        enum: ["released", "unknown", "unrun"],
        description:
          "released (the default): nothing was done. unknown: the work may have been done. unrun: the work never started, so the key returns to its state before the claim.",
      },
    },
    done: "The claim is abandoned.",
    act(id, token, body, { namespace }) {
      const { as = "released" } = body as { readonly as?: AbandonRequest["as"] };
      return context.claims(namespace).abandon({ id, token, as });
    },
  });
}

function renewRoute(context: Context): ApiRoute {
  return heldRoute({
    verb: "renew",
    id: "renewClaim",
    summary: "Renew the claim",
    properties: { leaseMs: LEASE_SCHEMA },
    done: "The lease starts again.",
    act: (id, token, { leaseMs }, { namespace }) => context.claims(namespace).renew({ id, token, leaseMs }),
  });
}
