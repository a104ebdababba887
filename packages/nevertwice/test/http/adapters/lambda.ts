/** Lambda behind API Gateway, in both versions of its events. */
import { attemptOf, idempotency, type LambdaEvent } from "../../../src/http/lambda.ts";
import type {
  AdapterHarness,
  HandledRequest,
  ReceivedResponse,
  ScriptedAnswer,
  SentRequest,
} from "../../../src/testing/adapter-cases.ts";

interface Result {
  readonly statusCode?: number;
  readonly headers?: Record<string, string>;
  readonly multiValueHeaders?: Record<string, string[]>;
  readonly cookies?: string[];
  readonly body?: string;
  readonly isBase64Encoded?: boolean;
}

type Version = 1 | 2;

function listsOf(lines: readonly (readonly [string, string])[]): Record<string, string[]> {
  const lists: Record<string, string[]> = Object.create(null);
  for (const [name, value] of lines) lists[name] = [...(lists[name] ?? []), value];
  return lists;
}

const joinedLists = (lists: Record<string, string[]>): Record<string, string> =>
  Object.fromEntries(Object.entries(lists).map(([name, values]) => [name, values.join(",")]));

/** The event that the gateway creates from a request. */
function eventOf(
  { method, target, headers, body }: SentRequest,
  version: Version,
  resource: string | undefined,
): LambdaEvent {
  const [path = "/", query = ""] = target.split("?");
  const lists = listsOf(headers);
  const content = body instanceof Uint8Array ? { body: Buffer.from(body).toString("base64") } : {};
  const shared = { ...content, isBase64Encoded: body !== undefined };
  if (version === 2) {
    return {
      ...shared,
      routeKey: resource === undefined ? "$default" : `ANY ${resource}`,
      rawPath: path,
      rawQueryString: query,
      headers: joinedLists(lists),
      requestContext: { http: { method, path } },
    };
  }
  const last = Object.fromEntries(Object.entries(lists).map(([name, values]) => [name, values.at(-1)]));
  return {
    ...shared,
    httpMethod: method,
    ...(resource !== undefined && { resource }),
    path,
    headers: last,
    multiValueHeaders: lists,
    multiValueQueryStringParameters: listsOf([...new URLSearchParams(query)]),
    requestContext: {},
  };
}

/** As handlers of that version answer. */
function resultOf({ status, headers, body }: ScriptedAnswer, version: Version): Result {
  const lists = listsOf(headers);
  if (body.kind === "json") lists["Content-Type"] ??= ["application/json"];
  const { "Set-Cookie": cookies, ...others } = lists;
  const shaped =
    version === 1
      ? { multiValueHeaders: lists }
      : { headers: joinedLists(others), ...(cookies && { cookies }) };
  const head = { statusCode: status, ...shaped };
  switch (body.kind) {
    case "json":
      return { ...head, body: JSON.stringify(body.value) };
    case "text":
      return { ...head, body: body.text };
    case "bytes":
      return { ...head, body: Buffer.from(body.bytes).toString("base64"), isBase64Encoded: true };
    default:
      return head;
  }
}

/** What the gateway sends of a result. */
function sent({
  statusCode = 200,
  headers,
  multiValueHeaders,
  cookies,
  body = "",
  isBase64Encoded,
}: Result): ReceivedResponse {
  const lines = [
    ...Object.entries(headers ?? {}),
    ...Object.entries(multiValueHeaders ?? {}).flatMap(([name, values]) =>
      values.map((value): [string, string] => [name, value]),
    ),
    ...(cookies ?? []).map((cookie): [string, string] => ["Set-Cookie", cookie]),
  ];
  const bytes = Buffer.from(body, isBase64Encoded ? "base64" : "utf8");
  return { status: statusCode, headers: lines, body: oneChunk(bytes) };
}

async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}

function harnessOf(version: Version): AdapterHarness<LambdaEvent> {
  return {
    lacks: {
      ...(version === 2 && { "header-lines": "events of version 2 have their header lines joined" }),
      written: "a function returns its answer",
      stream: "a function returns its answer",
      flush: "a function returns its answer",
      trailers: "a function returns its answer",
      arrival: "a function returns its answer",
      reason: "results have no reason phrase",
      uploads: "the gateway calls the function with the whole body",
      disconnects: "the gateway does not tell the function that the client has gone",
      connections: "the gateway has the connections",
      upgrades: "the gateway has the connections",
      "refused-headers": "the gateway judges headers once the function has returned",
      "parser-before": "events carry the body as text",
      "parser-after": "events carry the body as text",
    },
    header: (event, name) => event.headers?.[name],
    serve({ layer, route, handle }) {
      const resource = route?.replace(/:(\w+)/g, "{$1}");
      const accepts = new RegExp(`^${route?.replace(/:\w+/g, "[^/]+") ?? ".*"}/?$`);
      const handler = async (event: LambdaEvent): Promise<Result> => {
        const seen: HandledRequest = {
          method: event.httpMethod ?? "",
          stream: () => oneChunk(Buffer.from(event.body ?? "", "base64")),
          attempt: attemptOf(event),
        };
        return resultOf(await handle(seen), version);
      };
      const served = layer === undefined ? handler : idempotency(layer.guard, layer.options)(handler);
      return {
        async send(request) {
          // As the gateway's router does, which tells cases apart.
          if (!accepts.test(request.target.split("?", 1)[0] as string)) return sent({ statusCode: 404 });
          try {
            return sent(await served(eventOf(request, version, resource)));
          } catch {
            // What the gateway answers for a function that throws.
            return sent({ statusCode: 502, body: '{"message": "Internal server error"}' });
          }
        },
        stop() {},
      };
    },
  };
}

export const lambda1Harness = harnessOf(1);
export const lambda2Harness = harnessOf(2);
