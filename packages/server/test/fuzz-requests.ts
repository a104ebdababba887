/** Generates requests from an OpenAPI document: valid ones, and ones that are broken in some way. */
import * as fc from "fast-check";
import type { Document, Operation, Schema } from "./api-client.ts";

export type Draw = fc.GeneratorValue;

/** A claim that the server granted. */
export interface KnownClaim {
  readonly id: string;
  readonly token: string;
  readonly fence: number;
}

export interface FuzzRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly payload?: string | Buffer;
}

export interface Target {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

/** Streams are left out, since they do not end. */
export function targetsOf(document: Document): readonly Target[] {
  return Object.entries(document.paths)
    .flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
    )
    .filter(({ operation }) => operation.responses["200"]?.content?.["text/event-stream"] === undefined);
}

/** Each sender puts its own mark in all data that other callers must not read. */
export function requestFor(
  draw: Draw,
  target: Target,
  mark: string,
  known: readonly KnownClaim[],
): FuzzRequest {
  // One request is about one claim, so that its parts belong together.
  const about = known.length > 0 && draw(fc.nat, 9) > 0 ? known[draw(fc.nat, known.length - 1)] : undefined;
  const make = makerOf(draw, mark, about);
  const { path, method, operation } = target;
  const headers: Record<string, string> = {};
  const query = new URLSearchParams();
  let address = path;
  for (const { name, in: place, required, schema } of operation.parameters ?? []) {
    if (!required && draw(fc.boolean)) continue;
    const value = String(make(schema, name));
    if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(value.toWellFormed()));
    else if (place === "query") query.append(name, value.toWellFormed());
    else headers[name.toLowerCase()] = inHeader(value);
  }
  const schema = operation.requestBody?.content["application/json"].schema;
  const url = query.size === 0 ? address : `${address}?${query}`;
  if (schema === undefined) return broken(draw, { method, url, headers }, undefined);
  headers["content-type"] = "application/json";
  return broken(draw, { method, url, headers }, make(schema, "body"));
}

function inHeader(value: string): string {
  return value.replace(/[^\x20-\x7e]/g, "?");
}

/** A value for a string with this name; private strings contain the sender's mark. */
const PRIVATE = new Set(["key", "value", "error", "fingerprint", "id", "source", "idempotency-key"]);

function makerOf(draw: Draw, mark: string, about: KnownClaim | undefined) {
  const oneOf = <T>(values: readonly T[]): T => draw(fc.constantFrom, ...values) as T;

  function text(schema: Schema, name: string): string {
    if (typeof schema.pattern === "string" && schema.pattern.includes("{64}"))
      return about?.id ?? "f".repeat(64);
    if (name === "token" && about !== undefined) return about.token;
    const { maxLength = 200 } = schema as { readonly maxLength?: number };
    const some = `${name}-${draw(fc.nat, 4)}`;
    switch (draw(fc.nat, 9)) {
      case 0:
        return draw(fc.string, { unit: "binary", maxLength: 40 });
      case 1:
        return "ü".repeat(Math.min(maxLength, 700));
      case 2:
        return "x".repeat(maxLength);
      default:
        return PRIVATE.has(name) ? `${some}-${mark}` : `${some}-0123456789`;
    }
  }

  function whole(
    { minimum = 0, maximum = 1_000_000 }: { readonly minimum?: number; readonly maximum?: number },
    name: string,
  ) {
    if (name === "fence" && about !== undefined) return about.fence;
    const least = Math.max(minimum, -1_000_000);
    return oneOf([least, maximum, draw(fc.integer, { min: least, max: Math.min(maximum, least + 100_000) })]);
  }

  function object(schema: Schema): Record<string, unknown> {
    const properties = (schema.properties ?? {}) as Record<string, Schema>;
    const branch = Array.isArray(schema.oneOf) ? (oneOf(schema.oneOf) as Schema) : {};
    const required = [...((schema.required ?? []) as string[]), ...((branch.required ?? []) as string[])];
    const made: Record<string, unknown> = {};
    for (const [name, member] of Object.entries(properties))
      if (required.includes(name) || draw(fc.nat, 3) === 0) made[name] = make(member, name);
    return made;
  }

  function make(schema: Schema, name: string): unknown {
    if (Array.isArray(schema.enum)) return oneOf(schema.enum);
    const type = Array.isArray(schema.type) ? oneOf(schema.type as string[]) : schema.type;
    switch (type) {
      case "string":
        return text(schema, name);
      case "integer":
      case "number":
        return whole(schema, name);
      case "boolean":
        return draw(fc.boolean);
      case "null":
        return null;
      case "array":
        return Array.from({ length: draw(fc.nat, 3) }, () => make((schema.items ?? {}) as Schema, name));
      case "object":
        return object(schema);
      default:
        return draw(fc.boolean) ? { [name]: mark, more: draw(fc.jsonValue) } : draw(fc.jsonValue);
    }
  }
  return make;
}

type Breaking = (draw: Draw, request: FuzzRequest, body: unknown) => FuzzRequest;

const withText = (request: FuzzRequest, payload: string | Buffer): FuzzRequest => ({ ...request, payload });
const withHeaders = (request: FuzzRequest, body: unknown, headers: Record<string, string>): FuzzRequest => ({
  ...whole(request, body),
  headers: { ...request.headers, ...headers },
});

function whole(request: FuzzRequest, body: unknown): FuzzRequest {
  return body === undefined ? request : { ...request, payload: JSON.stringify(body) };
}

function membersOf(body: unknown): Record<string, unknown> {
  return typeof body === "object" && body !== null ? { ...body } : {};
}

const BREAKINGS: readonly Breaking[] = [
  // A member is missing, has another type, or is unknown.
  (draw, request, body) => {
    const members = membersOf(body);
    const names = Object.keys(members);
    if (names.length > 0) delete members[draw(fc.constantFrom, ...names)];
    return whole(request, members);
  },
  (draw, request, body) => {
    const members = membersOf(body);
    const names = Object.keys(members);
    if (names.length > 0) members[draw(fc.constantFrom, ...names)] = draw(fc.jsonValue);
    return whole(request, members);
  },
  (draw, request, body) => whole(request, { ...membersOf(body), [draw(fc.string)]: draw(fc.jsonValue) }),
  (draw, request) => whole(request, draw(fc.jsonValue)),
  // A body that is not JSON, or not only JSON.
  (draw, request, body) => {
    const text = JSON.stringify(body ?? {});
    return withText(request, text.slice(0, draw(fc.nat, text.length)));
  },
  (_, request, body) =>
    withText(request, JSON.stringify(body ?? {}).replace("{", '{"__proto__":{"polluted":1},')),
  (_, request, body) =>
    withText(request, JSON.stringify(body ?? {}).replace("{", '{"constructor":{"prototype":{}},')),
  (_, request) => withText(request, "[".repeat(50_000)),
  (_, request) => withText(request, `{"value":${"[".repeat(20_000)}${"]".repeat(20_000)}}`),
  (draw, request) => withText(request, Buffer.from(draw(fc.uint8Array, { maxLength: 200 }))),
  (draw, request, body) =>
    withHeaders(request, body, {
      "content-type": draw(fc.constantFrom, "text/plain", "application/xml", "x", ""),
    }),
  // Another caller from another address.
  (draw, request, body) =>
    withHeaders(request, body, {
      authorization: draw(
        fc.constantFrom,
        "Bearer",
        "Basic YTpi",
        `Bearer nt_${"0".repeat(16)}_${"A".repeat(43)}`,
        "Bearer x y",
      ),
    }),
  (_, request, body) => withHeaders(request, body, { host: "evil.example" }),
  (_, request, body) => withHeaders(request, body, { origin: "http://evil.example" }),
  (draw, request, body) =>
    withHeaders(request, body, { cookie: `nevertwice_session=${draw(fc.base64String)}.x` }),
  // Another address.
  (draw, request, body) =>
    whole({ ...request, method: draw(fc.constantFrom, "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD") }, body),
  (draw, request, body) =>
    whole(
      {
        ...request,
        url:
          request.url +
          draw(fc.constantFrom, "/", "//", "/..", "%", "%00", "%2e%2e%2f", "?a=1&a=2", "?limit=&limit=x"),
      },
      body,
    ),
  (draw, request, body) =>
    whole({ ...request, url: `/v1/${encodeURIComponent(draw(fc.string).toWellFormed())}` }, body),
];

/** Two of three requests are valid. */
function broken(draw: Draw, request: FuzzRequest, body: unknown): FuzzRequest {
  if (draw(fc.nat, 2) > 0) return whole(request, body);
  return (draw(fc.constantFrom, ...BREAKINGS) as Breaking)(draw, request, body);
}
