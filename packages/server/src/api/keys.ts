/** Keys over HTTP: operators read them and decide unknown outcomes; auditors read them without outcomes and whole keys. */
import { type Decision, NevertwiceError, type RecordView, type Subject } from "nevertwice";
import { isOperator } from "../access.ts";
import type { Context } from "../context.ts";
import { LONGEST_DURATION_MS } from "../longest-duration.ts";
import { bulkResolveRoute } from "./bulk-resolve.ts";
import { keyDetailsRoutes, notFound } from "./key-details.ts";
import { type KeySearch, searchKeys } from "./key-search.ts";
import { namespacesRoute } from "./namespaces.ts";
import { RECORD_SCHEMA, recordJson, STATES } from "./record-json.ts";
import type { ApiAnswer, ApiRequest, ApiRoute, JsonSchema, Parameter } from "./route.ts";
import { DONE_SCHEMA, FENCE_SCHEMA, findRecord, ID_PARAMETER, partSchema } from "./subjects.ts";

const PAGE = 50;
const MAX_PAGE = 500;

export function keysRoutes(context: Context): readonly ApiRoute[] {
  return [
    listRoute(context),
    ...keyDetailsRoutes(context),
    namespacesRoute(context),
    resolveRoute(context),
    bulkResolveRoute(context),
    releaseRoute(context),
    forgetRoute(context),
  ];
}

const LIST_QUERY: Readonly<Record<string, Parameter>> = {
  state: {
    schema: { enum: STATES },
    description:
      "Only keys in this state. `pending`: an attempt holds the key. `lapsed`: its lease has ended without an outcome. `released`: it was given up, so the next attempt runs. `completed`: the work is done.",
  },
  undecided: {
    schema: { type: "boolean" },
    description: "With true: only keys that wait for a decision, which are held and lapsed.",
  },
  key: {
    schema: partSchema("A key."),
    description:
      "Only keys that are exactly this text. Several operations and scopes may have one. Only operators may ask.",
  },
  operation: {
    schema: partSchema("An operation."),
    description:
      "Only keys of this operation: what the key is for, such as `charge`, or a method and path of the gateway.",
  },
  scope: {
    schema: partSchema("A scope."),
    description:
      "Only keys of this scope: the tenant, customer or caller that the key belongs to, exactly as it was claimed.",
  },
  before: {
    schema: { type: "integer", minimum: 0, maximum: LONGEST_DURATION_MS },
    description:
      "Only keys whose latest attempt claimed them at this time or earlier. In milliseconds since the epoch, by the store's clock.",
  },
  search: {
    schema: { type: "string", minLength: 1, maxLength: 200 },
    description:
      "Only keys with this text in their key, operation or scope, or whose id begins with it. Keys that are exactly this text come first, in addition to `limit`.",
  },
  after: {
    schema: { type: "string", minLength: 1, maxLength: 8_000 },
    description: "The `next` of the previous page.",
  },
  limit: {
    schema: { type: "integer", minimum: 1, maximum: MAX_PAGE },
    description: `The most keys on a page; default ${PAGE}.`,
  },
};

function listRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/keys",
    id: "listKeys",
    tag: "keys",
    summary: "List keys, page by page",
    roles: ["operator", "auditor"],
    query: LIST_QUERY,
    answers: {
      200: {
        description:
          "A page. It can be short or empty and still have a `next`: more keys are left to look at. Keys that are claimed between two pages may be missing or appear twice.",
        schema: {
          type: "object",
          required: ["records", "next", "order"],
          properties: {
            records: { type: "array", items: RECORD_SCHEMA },
            unreadable: {
              type: "array",
              description: "Damaged records of this page, if there are any. Only operators get the reason.",
              items: {
                type: "object",
                required: ["id"],
                properties: { id: { type: "string" }, reason: { type: "string" } },
                additionalProperties: false,
              },
            },
            next: { type: ["string", "null"] },
            order: {
              enum: ["newest-first", "none"],
              description: "By the time of the claim, or none on a store that has no index for it.",
            },
          },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-supported"],
    async handle({ query, caller }) {
      if (context.store.list === undefined) return notSupported("list records");
      const isWhole = isOperator(caller);
      const asked = query as Partial<KeySearch>;
      // Otherwise an auditor could guess a key, of which only the first characters are shown.
      if (!isWhole && asked.key !== undefined)
        throw new NevertwiceError("not-authorized", "only operators may search for a whole key.");
      const guard = context.guard(caller.namespace);
      const readById = async (id: string) => (await findRecord(context, caller, id))?.record;
      const page = await searchKeys({ guard, readById }, { ...asked, limit: asked.limit ?? PAGE, isWhole });
      // Lists have no outcomes; only a single key shows its outcome.
      const records = page.records
        // A forgotten key is not listed, since it cannot be found by its id either.
        .filter(({ operation }) => operation !== undefined)
        .map((record) => recordJson(record, isWhole, false));
      // A reason may quote the record, and auditors must not see all of it.
      const unreadable = page.unreadable?.map((damaged) => (isWhole ? damaged : { id: damaged.id }));
      const { next = null, order } = page;
      return { status: 200, body: { records, ...(unreadable && { unreadable }), next, order } };
    },
  };
}

type DecisionHandler = (
  found: { readonly record: RecordView; readonly subject: Subject },
  request: ApiRequest & { readonly body: { readonly fence: number } },
) => Promise<ApiAnswer | boolean>;

/** The shared part of the three decisions about a key: the role, and the fence of the record that the operator saw. */
function decisionRoute(
  context: Context,
  own: Pick<ApiRoute, "id" | "summary" | "description"> & {
    readonly verb: string;
    readonly done: string;
    readonly properties?: Readonly<Record<string, JsonSchema>>;
    readonly required?: readonly string[];
    readonly act: DecisionHandler;
  },
): ApiRoute {
  const { verb, done, properties, required = [], act, ...rest } = own;
  return {
    ...rest,
    method: "POST",
    path: `/v1/keys/{id}/${verb}`,
    tag: "keys",
    roles: ["operator"],
    params: ID_PARAMETER,
    body: {
      type: "object",
      required: ["fence", ...required],
      properties: { fence: FENCE_SCHEMA, ...properties },
      additionalProperties: false,
    },
    answers: {
      200: {
        description: done,
        schema: DONE_SCHEMA,
      },
    },
    problems: ["not-found", "pending", "concurrent-modification", "not-supported"],
    async handle(request) {
      const id = request.params.id as string;
      const found = await findRecord(context, request.caller, id);
      if (found === undefined) return notFound();
      const { record } = found;
      const asked = request as Parameters<DecisionHandler>[1];
      if (record.fence !== asked.body.fence) return staleDecision();
      if (record.state === "pending") {
        const problem = new NevertwiceError(
          "pending",
          "the work is still running; decide after its lease has ended.",
        );
        return { problem, more: { id, leaseLeftMs: Math.ceil(record.leaseLeftMs) } };
      }
      const answer = await act(found, asked);
      if (typeof answer !== "boolean") return answer;
      return answer ? { status: 200, body: { id } } : staleDecision();
    },
  };
}

function resolveRoute(context: Context): ApiRoute {
  return decisionRoute(context, {
    verb: "resolve",
    id: "resolveKey",
    summary: "Decide a key whose outcome is unknown",
    description: "done and failed become the outcome of the key; not-done frees the key.",
    done: "The key is resolved.",
    required: ["decision"],
    properties: {
      decision: { enum: ["done", "failed", "not-done"] },
      value: { description: "With done: the result of the work." },
      error: { description: "With failed: the error of the work." },
    },
    act({ record, subject }, { body, caller }) {
      if (record.state !== "lapsed") return Promise.resolve(false);
      const fenced = { ...subject, fence: record.fence };
      return context.guard(caller.namespace).resolve(fenced, readDecision(body));
    },
  });
}

function readDecision(body: unknown): Decision {
  const {
    decision,
    value = null,
    error = "an operator decided that it failed",
  } = body as {
    readonly decision: Decision["status"];
    readonly value?: unknown;
    readonly error?: unknown;
  };
  if (decision === "done") return { status: "done", value };
  return decision === "failed" ? { status: "failed", error } : { status: "not-done" };
}

function releaseRoute(context: Context): ApiRoute {
  return decisionRoute(context, {
    verb: "release",
    id: "releaseKey",
    summary: "Release a key, so that its work can be done again",
    description: "A completed key loses its outcome. A key whose outcome is unknown counts as not done.",
    done: "The key is released.",
    async act({ record, subject }, { caller }) {
      const guard = context.guard(caller.namespace);
      const fenced = { ...subject, fence: record.fence };
      if (record.state === "lapsed") return guard.resolve(fenced, { status: "not-done" });
      if (record.state === "released") return true;
      return context.store.forget === undefined ? notSupported("reopen records") : guard.reopen(fenced);
    },
  });
}

function forgetRoute(context: Context): ApiRoute {
  return decisionRoute(context, {
    verb: "forget",
    id: "forgetKey",
    summary: "Forget a key and its outcome",
    description:
      "A completed key leaves a mark, without key and outcome, that its work is done. The mark stays until the retention ends.",
    done: "The key is forgotten.",
    async act({ record, subject }, { caller }) {
      if (context.store.forget === undefined) return notSupported("forget records");
      return context.guard(caller.namespace).forget({ ...subject, fence: record.fence });
    },
  });
}

function staleDecision(): ApiAnswer {
  return {
    problem: new NevertwiceError(
      "concurrent-modification",
      "the key has changed since you read it; read it again before you decide.",
    ),
  };
}

function notSupported(what: string): ApiAnswer {
  return { problem: new NevertwiceError("not-supported", `the store of this server cannot ${what}.`) };
}
