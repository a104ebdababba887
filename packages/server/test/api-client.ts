/** A server for tests, and a client that checks every response against the OpenAPI document. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import type { InjectOptions } from "fastify";
import { onTestFinished } from "vitest";
import type { AccessRequest } from "../src/access.ts";
import type { ServerConfig } from "../src/config.ts";
import { createServer, type NevertwiceServer } from "../src/server.ts";

export interface Document {
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

export type Schema = Readonly<Record<string, unknown>>;

export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly description: string;
  readonly "x-roles": readonly string[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: "path" | "query" | "header";
    readonly required: boolean;
    readonly description?: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: Schema } } };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: Schema }>> }>
  >;
}

export interface Answered {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the type of the response.
  readonly body: any;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

export type Call = (
  method: string,
  path: string,
  body?: unknown,
  options?: Pick<InjectOptions, "headers">,
) => Promise<Answered>;

export async function startServer(config: Partial<ServerConfig> = {}): Promise<NevertwiceServer> {
  const server = await createServer({ store: "memory:", logLevel: "silent", ...config });
  onTestFinished(() => server.close());
  return server;
}

/** A caller with a new access token of this role. */
export async function callerOf(
  server: NevertwiceServer,
  role: AccessRequest["role"],
  more: Partial<AccessRequest> = {},
): Promise<Call> {
  const { token } = await server.context.access.create({ name: `${role}-1`, role, ...more });
  return callWith(server, token);
}

export function callWith(server: NevertwiceServer, token?: string): Call {
  return async (method, path, body, { headers } = {}) => {
    const response = await server.app.inject({
      method: method as "GET",
      url: path,
      headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers },
      ...(body !== undefined && { payload: body as object }),
    });
    const type = String(response.headers["content-type"] ?? "");
    const answered = {
      status: response.statusCode,
      headers: response.headers,
      text: response.payload,
      body: type.includes("json") ? response.json() : response.payload,
    };
    await checkDocumented(server, method, path, answered);
    return answered;
  };
}

const validators = new WeakMap<NevertwiceServer, Promise<Check>>();
type Check = (method: string, path: string, answered: Answered) => void;

/** Throws for a response that the document does not describe. */
export async function checkDocumented(
  server: NevertwiceServer,
  method: string,
  path: string,
  answered: Answered,
): Promise<void> {
  const known = validators.get(server) ?? documentOf(server).then(checkOf);
  validators.set(server, known);
  (await known)(method, path, answered);
}

export async function documentOf(server: NevertwiceServer): Promise<Document> {
  const response = await server.app.inject({ method: "GET", url: "/openapi.json" });
  return response.json();
}

function checkOf(document: Document): Check {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  ajv.addSchema({ $id: "openapi.json", components: document.components });
  const compiled = new Map<Schema, ValidateFunction>();
  const patterns = Object.keys(document.paths).map((path) => ({
    path,
    pattern: new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`),
  }));

  return (method, address, { status, headers, body, text }) => {
    const path = address.split("?")[0] as string;
    const found =
      patterns.find((candidate) => candidate.path === path) ??
      patterns.find(({ pattern }) => pattern.test(path));
    const operation = found && document.paths[found.path]?.[method.toLowerCase()];
    // Responses outside of operations have the same shape.
    const where = `${method} ${found?.path ?? "an unknown path"} ${status}`;
    const type = String(headers["content-type"] ?? "").split(";")[0] as string;
    const schema =
      operation === undefined
        ? { $ref: "#/components/schemas/Problem" }
        : operation.responses[status]?.content?.[type]?.schema;
    if (schema === undefined) throw new Error(`${where} ${type} is not in the document: ${text}`);
    let validate = compiled.get(schema);
    if (validate === undefined) {
      validate = ajv.compile(resolved(schema));
      compiled.set(schema, validate);
    }
    if (!validate(body)) throw new Error(`${where} is not as documented: ${ajv.errorsText(validate.errors)}`);
  };
}

function resolved(schema: Schema): Schema {
  return typeof schema.$ref === "string" ? { $ref: `openapi.json${schema.$ref}` } : schema;
}
