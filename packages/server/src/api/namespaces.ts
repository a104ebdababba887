/** The namespaces that have records, for callers that see the whole server. Others see their own. */
import { NevertwiceError } from "nevertwice";
import { visibleNamespace, WATCHERS } from "../access.ts";
import type { Context } from "../context.ts";
import { isReservedNamespace } from "../server-guard.ts";
import type { NamespacePageJson } from "./api-json.ts";
import type { ApiRoute } from "./route.ts";

const PAGE = 100;
const MAX_PAGE = 1_000;

export function namespacesRoute(context: Context): ApiRoute {
  return {
    method: "GET",
    path: "/v1/namespaces",
    id: "listNamespaces",
    tag: "keys",
    summary: "List the namespaces that have keys",
    description:
      "The token of the configuration, and callers of a server without tokens, get all namespaces. Others get their own.",
    roles: WATCHERS,
    query: {
      limit: {
        schema: { type: "integer", minimum: 1, maximum: MAX_PAGE },
        description: `The most namespaces on a page; default ${PAGE}.`,
      },
      after: {
        schema: { type: "string", minLength: 1, maxLength: 8_000 },
        description: "The `next` of the previous page.",
      },
    },
    answers: {
      200: {
        description: "A page. It can be empty and still have a `next`: more records are left to look at.",
        schema: {
          type: "object",
          required: ["namespaces", "next"],
          properties: {
            namespaces: { type: "array", items: { type: "string" } },
            next: { type: ["string", "null"] },
          },
          additionalProperties: false,
        },
      },
    },
    problems: ["not-supported"],
    async handle({ caller, query, signal }) {
      const own = visibleNamespace(caller);
      if (own !== undefined) return { status: 200, body: { namespaces: [own], next: null } };
      const { limit = PAGE, after } = query as { readonly limit?: number; readonly after?: string };
      const { namespaces } = context.store;
      if (namespaces === undefined)
        throw new NevertwiceError("not-supported", "the store of this server cannot list namespaces.");
      const page = await namespaces.call(context.store, { limit, after, signal });
      const body: NamespacePageJson = {
        namespaces: page.namespaces.filter((name) => !isReservedNamespace(name)),
        next: page.next ?? null,
      };
      return { status: 200, body };
    },
  };
}
