/**
 * A proxy in front of dynalite that adds a missing feature: when a condition fails, the real service returns the current
 * item to a request with `ReturnValuesOnConditionCheckFailure`. The proxy also records the operations.
 */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { TestContext } from "vitest";

export interface ConditionProxy {
  readonly url: string;
  /** The operations of all requests, in order, such as `PutItem`. */
  readonly operations: string[];
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

export async function startConditionProxy(
  { onTestFinished }: Pick<TestContext, "onTestFinished">,
  target: string,
): Promise<ConditionProxy> {
  const proxy = await conditionProxyServer(target);
  onTestFinished(proxy.stop);
  return proxy;
}

export async function conditionProxyServer(target: string): Promise<ConditionProxy & { stop(): void }> {
  const operations: string[] = [];
  const server: Server = createServer(async (request, response) => {
    const body = await text(request);
    const operation = readOperation(request.headers);
    operations.push(operation);
    const answer = await forward(target, request.headers, operation, body);
    const { status, body: reply } = await withItem(target, request.headers, body, answer);
    response.writeHead(status, { "content-type": "application/x-amz-json-1.0" }).end(reply);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    operations,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const VERSION = "DynamoDB_20120810";

function readOperation(headers: IncomingHttpHeaders): string {
  return String(headers["x-amz-target"]).replace(`${VERSION}.`, "");
}

async function forward(
  target: string,
  headers: IncomingHttpHeaders,
  operation: string,
  body: string,
): Promise<Answer> {
  const answer = await fetch(target, {
    method: "POST",
    headers: {
      authorization: String(headers.authorization),
      "x-amz-date": String(headers["x-amz-date"]),
      "content-type": "application/x-amz-json-1.0",
      "x-amz-target": `${VERSION}.${operation}`,
    },
    body,
  });
  return { status: answer.status, body: await answer.text() };
}

/** The answer, with the current item added if a condition failed. */
async function withItem(
  target: string,
  headers: IncomingHttpHeaders,
  body: string,
  answer: Answer,
): Promise<Answer> {
  if (!answer.body.includes("ConditionalCheckFailedException")) return answer;
  const { TableName, Key, Item, ReturnValuesOnConditionCheckFailure } = JSON.parse(body);
  if (ReturnValuesOnConditionCheckFailure !== "ALL_OLD") return answer;
  const key = { TableName, Key: Key ?? { id: Item.id }, ConsistentRead: true };
  const found = JSON.parse((await forward(target, headers, "GetItem", JSON.stringify(key))).body);
  return { ...answer, body: JSON.stringify({ ...JSON.parse(answer.body), Item: found.Item }) };
}
