/** Clients and tables for the tests of the DynamoDB store. */
import { randomBytes } from "node:crypto";
import {
  CreateTableCommand,
  DynamoDBClient,
  type DynamoDBClientConfig,
  waitUntilTableExists,
} from "@aws-sdk/client-dynamodb";
import { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import { dynamodbTable } from "../../../src/stores/dynamodb.ts";

const ACCOUNT = { region: "eu-west-1", credentials: { accessKeyId: "test", secretAccessKey: "test" } };

export function lowClient(endpoint: string, config: DynamoDBClientConfig = {}): DynamoDBClient {
  const requestHandler = { httpAgent: { maxSockets: 200 } };
  return new DynamoDBClient({ ...ACCOUNT, endpoint, requestHandler, ...config });
}

export function clientOf(endpoint: string, config: DynamoDBClientConfig = {}): DynamoDBDocumentClient {
  return DynamoDBDocumentClient.from(lowClient(endpoint, config));
}

/** Creates a table for one test; returns its name. */
export async function newTable(client: DynamoDBDocumentClient): Promise<string> {
  const table = `test-${randomBytes(6).toString("hex")}`;
  await client.send(new CreateTableCommand(dynamodbTable(table)));
  const patience = { client: client as never, minDelay: 0.01, maxDelay: 0.1, maxWaitTime: 10 };
  await waitUntilTableExists(patience, { TableName: table });
  return table;
}
