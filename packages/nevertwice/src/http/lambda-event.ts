/**
 * Translates Lambda's proxy events and results: API Gateway version 1 (REST), version 2 (HTTP APIs and function URLs),
 * and load balancers. The types contain only the members that are used here.
 */
import { Buffer, isUtf8 } from "node:buffer";
import type { HeaderLine, HttpReply, HttpRequest, HttpResponse } from "./http-message.ts";
import { matchedRoute } from "./route-path.ts";

type NameMap<T> = Readonly<Record<string, T | undefined>> | null;

/** The part of an event of API Gateway, of a function URL or of a load balancer that is used here. */
export interface LambdaEvent {
  readonly httpMethod?: string;
  readonly path?: string;
  readonly rawPath?: string;
  readonly rawQueryString?: string;
  readonly queryStringParameters?: NameMap<string>;
  readonly multiValueQueryStringParameters?: NameMap<readonly string[]>;
  readonly headers?: NameMap<string>;
  readonly multiValueHeaders?: NameMap<readonly string[]>;
  /** The pattern of the route: with version 1 the resource, with version 2 the method and the path. */
  readonly resource?: string;
  readonly routeKey?: string;
  readonly requestContext?: object;
  readonly body?: string | null;
  readonly isBase64Encoded?: boolean;
}

/** A response of the layer itself, in the format that belongs to the event. */
export interface LambdaReply {
  /** The HTTP status. */
  statusCode: number;
  /** The headers, for events without lists of them. */
  headers?: Record<string, string>;
  /** The headers with several lines each, for a load balancer with multi-value headers and for version 1. */
  multiValueHeaders?: Record<string, string[]>;
  /** The cookies, for version 2. */
  cookies?: string[];
  /** The body, as text or in base64. */
  body: string;
  /** Whether the body is in base64. */
  isBase64Encoded: boolean;
}

export interface LambdaResult {
  readonly statusCode?: unknown;
  readonly headers?: NameMap<string | number | boolean>;
  readonly multiValueHeaders?: NameMap<readonly (string | number | boolean)[]>;
  readonly cookies?: readonly string[];
  readonly body?: unknown;
  readonly isBase64Encoded?: boolean;
}

export function lambdaRequest<Event extends LambdaEvent>(event: Event): HttpRequest<Event> {
  let lines: ReadonlyMap<string, string> | undefined;
  return {
    native: event,
    method: readMethod(event) ?? "",
    target: readTarget(event),
    route: matchedRoute(event.resource ?? event.routeKey?.split(" ")[1], readRoutedPath(event)),
    header(name) {
      lines ??= readHeaders(event);
      return lines.get(name);
    },
    ...(event.multiValueHeaders && { countLines: (name) => countLines(event, name) }),
    readBody(maxBytes) {
      const bytes = Buffer.from(event.body ?? "", event.isBase64Encoded === true ? "base64" : "utf8");
      return bytes.length > maxBytes ? "too-large" : { kind: "bytes", bytes };
    },
  };
}

function readMethod({ httpMethod, requestContext }: LambdaEvent): string | undefined {
  return httpMethod ?? (requestContext as { http?: { method?: string } } | undefined)?.http?.method;
}

function isVersion2(event: LambdaEvent): boolean {
  return event.rawPath !== undefined;
}

function readTarget(event: LambdaEvent): string {
  const { rawPath, rawQueryString, path = "/" } = event;
  if (rawPath !== undefined) return rawQueryString ? `${rawPath}?${rawQueryString}` : rawPath;
  const query = Object.entries(event.multiValueQueryStringParameters ?? event.queryStringParameters ?? {})
    .flatMap(([name, values]) => [values ?? []].flat().map((value) => [name, value]))
    .map((pair) => pair.map(encodeURIComponent).join("="))
    .join("&");
  return query === "" ? path : `${path}?${query}`;
}

/** The path without the stage, which API Gateway puts in front of it in version 2. */
function readRoutedPath({ rawPath, path, requestContext }: LambdaEvent): string | undefined {
  const { stage } = (requestContext ?? {}) as { readonly stage?: unknown };
  const whole = rawPath ?? path;
  return typeof stage === "string" && whole?.startsWith(`/${stage}/`) ? whole.slice(stage.length + 1) : whole;
}

function readHeaders(event: LambdaEvent): ReadonlyMap<string, string> {
  const lines = new Map<string, string>();
  for (const [name, value] of Object.entries(event.headers ?? {})) {
    if (value !== undefined) lines.set(name.toLowerCase(), value);
  }
  // In version 1, `headers` has only the last line of each name. All of them are here.
  for (const [name, values] of Object.entries(event.multiValueHeaders ?? {})) {
    if (values !== undefined) lines.set(name.toLowerCase(), values.join(", "));
  }
  return lines;
}

function countLines({ multiValueHeaders }: LambdaEvent, name: string): number {
  return Object.entries(multiValueHeaders ?? {})
    .filter(([each]) => each.toLowerCase() === name)
    .reduce((sum, [, values]) => sum + (values?.length ?? 0), 0);
}

/** The result that a handler returned. In version 2, a value without a status is the JSON body of a 200. */
export function toLambdaResult(returned: unknown, event: LambdaEvent): LambdaResult {
  const isObject = typeof returned === "object" && returned !== null;
  if (isObject && "statusCode" in returned) return returned;
  // The gateway will reject this value, but the handler did not fail, so it must not run again.
  if (!isVersion2(event)) return isObject ? returned : {};
  const body = typeof returned === "string" ? returned : JSON.stringify(returned);
  return { statusCode: 200, headers: { "content-type": "application/json" }, body };
}

export function toHttpResponse(result: LambdaResult): HttpResponse {
  const { statusCode = 200, headers, multiValueHeaders, cookies = [], body } = result;
  const status = Number(statusCode);
  const lines: HeaderLine[] = cookies.map((cookie) => ["set-cookie", cookie]);
  for (const [name, values] of Object.entries({ ...headers, ...multiValueHeaders })) {
    for (const value of [values ?? []].flat()) lines.push([name, String(value)]);
  }
  const text = typeof body === "string" ? body : JSON.stringify(body ?? undefined);
  return {
    status: Number.isInteger(status) && status >= 200 && status <= 599 ? status : 502,
    headers: lines,
    body: Buffer.from(text ?? "", result.isBase64Encoded === true ? "base64" : "utf8"),
  };
}

/** The result with these header lines added. */
export function withLines(result: LambdaResult, added: readonly HeaderLine[]): LambdaResult {
  if (result.multiValueHeaders) {
    const multiValueHeaders = { ...result.multiValueHeaders };
    for (const [name, value] of added) {
      const own = spellName(multiValueHeaders, name);
      multiValueHeaders[own] = [...(multiValueHeaders[own] ?? []), value];
    }
    return { ...result, multiValueHeaders };
  }
  const headers = { ...result.headers };
  for (const [name, value] of added) {
    const own = spellName(headers, name);
    headers[own] = headers[own] === undefined ? value : `${headers[own]}, ${value}`;
  }
  return { ...result, headers };
}

/** The name in the spelling of the handler, if the handler has set the header. */
function spellName(headers: object, name: string): string {
  return Object.keys(headers).find((own) => own.toLowerCase() === name.toLowerCase()) ?? name;
}

export function toLambdaReply({ status, headers, body }: HttpReply, event: LambdaEvent): LambdaReply {
  const isText = typeof body === "string" || isUtf8(body);
  const bytes =
    typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.length);
  const hasBody = status !== 204 && status !== 205 && status !== 304;
  return {
    statusCode: status,
    ...toLambdaHeaders(headers, event),
    body: hasBody ? bytes.toString(isText ? "utf8" : "base64") : "",
    isBase64Encoded: hasBody && !isText,
  };
}

function toLambdaHeaders(
  lines: readonly HeaderLine[],
  event: LambdaEvent,
): Pick<LambdaReply, "headers" | "multiValueHeaders" | "cookies"> {
  // Without a prototype: a header may be called `constructor`.
  const lists: Record<string, string[]> = Object.create(null);
  for (const [name, value] of lines) {
    const lower = name.toLowerCase();
    lists[lower] = [...(lists[lower] ?? []), value];
  }
  if (event.multiValueHeaders) return { multiValueHeaders: lists };
  const { "set-cookie": cookies, ...others } = lists;
  const headers = Object.fromEntries(
    Object.entries(others).map(([name, values]) => [name, values.join(", ")]),
  );
  if (cookies === undefined) return { headers };
  if (isVersion2(event)) return { headers, cookies };
  return { headers: { ...headers, "set-cookie": cookies.at(-1) ?? "" } };
}
