/**
 * Lambda's proxy events and results as the exchange sees them: API Gateway's version 1 (REST), version 2 (HTTP APIs and
 * function URLs), and load balancers. Typed by what is needed of them.
 */
import { Buffer, isUtf8 } from "node:buffer";
import type { HeaderLine, HttpRequest, HttpResponse, Reply } from "./exchange.ts";

type Named<T> = Readonly<Record<string, T | undefined>> | null;

export interface LambdaEvent {
  readonly httpMethod?: string;
  readonly path?: string;
  readonly rawPath?: string;
  readonly rawQueryString?: string;
  readonly queryStringParameters?: Named<string>;
  readonly multiValueQueryStringParameters?: Named<readonly string[]>;
  readonly headers?: Named<string>;
  readonly multiValueHeaders?: Named<readonly string[]>;
  readonly requestContext?: object;
  readonly body?: string | null;
  readonly isBase64Encoded?: boolean;
}

/** What the layer itself answers, in the shape that the event asks for. */
export interface LambdaReply {
  statusCode: number;
  headers?: Record<string, string>;
  multiValueHeaders?: Record<string, string[]>;
  cookies?: string[];
  body: string;
  isBase64Encoded: boolean;
}

interface LambdaResult {
  readonly statusCode?: unknown;
  readonly headers?: Named<string | number | boolean>;
  readonly multiValueHeaders?: Named<readonly (string | number | boolean)[]>;
  readonly cookies?: readonly string[];
  readonly body?: unknown;
  readonly isBase64Encoded?: boolean;
}

export function lambdaRequest<Event extends LambdaEvent>(event: Event): HttpRequest<Event> {
  let lines: ReadonlyMap<string, string> | undefined;
  return {
    native: event,
    method: methodOf(event) ?? "",
    target: targetOf(event),
    header(name) {
      lines ??= headersOf(event);
      return lines.get(name);
    },
    readBody(maxBytes) {
      const bytes = Buffer.from(event.body ?? "", event.isBase64Encoded === true ? "base64" : "utf8");
      return bytes.length > maxBytes ? "too-large" : { kind: "bytes", bytes };
    },
  };
}

function methodOf({ httpMethod, requestContext }: LambdaEvent): string | undefined {
  return httpMethod ?? (requestContext as { http?: { method?: string } } | undefined)?.http?.method;
}

function isVersion2(event: LambdaEvent): boolean {
  return event.rawPath !== undefined;
}

function targetOf(event: LambdaEvent): string {
  const { rawPath, rawQueryString, path = "/" } = event;
  if (rawPath !== undefined) return rawQueryString ? `${rawPath}?${rawQueryString}` : rawPath;
  const query = Object.entries(event.multiValueQueryStringParameters ?? event.queryStringParameters ?? {})
    .flatMap(([name, values]) => [values ?? []].flat().map((value) => [name, value]))
    .map((pair) => pair.map(encodeURIComponent).join("="))
    .join("&");
  return query === "" ? path : `${path}?${query}`;
}

function headersOf(event: LambdaEvent): ReadonlyMap<string, string> {
  const lines = new Map<string, string>();
  for (const [name, value] of Object.entries(event.headers ?? {})) {
    if (value !== undefined) lines.set(name.toLowerCase(), value);
  }
  // Version 1 has the last line alone in `headers`, and all of them here.
  for (const [name, values] of Object.entries(event.multiValueHeaders ?? {})) {
    if (values !== undefined) lines.set(name.toLowerCase(), values.join(", "));
  }
  return lines;
}

/** What a handler returned, in full. In version 2, what has no status is taken as the JSON of a 200. */
export function resultOf(returned: unknown, event: LambdaEvent): LambdaResult {
  const isObject = typeof returned === "object" && returned !== null;
  if (isObject && "statusCode" in returned) return returned;
  // The gateway has no use for this, but the handler did not fail: it must not run again.
  if (!isVersion2(event)) return isObject ? returned : {};
  const body = typeof returned === "string" ? returned : JSON.stringify(returned);
  return { statusCode: 200, headers: { "content-type": "application/json" }, body };
}

export function responseOf(result: LambdaResult): HttpResponse {
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

/** The same result with these lines on top of its own. */
export function withLines(result: LambdaResult, added: readonly HeaderLine[]): LambdaResult {
  if (result.multiValueHeaders) {
    const multiValueHeaders = { ...result.multiValueHeaders };
    for (const [name, value] of added) {
      const own = ownName(multiValueHeaders, name);
      multiValueHeaders[own] = [...(multiValueHeaders[own] ?? []), value];
    }
    return { ...result, multiValueHeaders };
  }
  const headers = { ...result.headers };
  for (const [name, value] of added) {
    const own = ownName(headers, name);
    headers[own] = headers[own] === undefined ? value : `${headers[own]}, ${value}`;
  }
  return { ...result, headers };
}

/** The name as the handler wrote it, if it did. */
function ownName(headers: object, name: string): string {
  return Object.keys(headers).find((own) => own.toLowerCase() === name.toLowerCase()) ?? name;
}

export function toResult({ status, headers, body }: Reply, event: LambdaEvent): LambdaReply {
  const isText = typeof body === "string" || isUtf8(body);
  const bytes =
    typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.length);
  const hasBody = status !== 204 && status !== 205 && status !== 304;
  return {
    statusCode: status,
    ...shapedHeaders(headers, event),
    body: hasBody ? bytes.toString(isText ? "utf8" : "base64") : "",
    isBase64Encoded: hasBody && !isText,
  };
}

function shapedHeaders(
  lines: readonly HeaderLine[],
  event: LambdaEvent,
): Pick<LambdaReply, "headers" | "multiValueHeaders" | "cookies"> {
  const lists: Record<string, string[]> = {};
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
