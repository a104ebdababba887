/** The DynamoDB that DYNAMODB_ENDPOINT names, or one of this process's own that is gone when it ends. */
import { createRequire } from "node:module";
import { CreateTableCommand, DynamoDBClient, waitUntilTableExists } from "@aws-sdk/client-dynamodb";
import { dynamodbTable } from "nevertwice/stores/dynamodb";

// dynalite has no types.
const dynalite = createRequire(import.meta.url)("dynalite");

/** @returns {Promise<{ endpoint: string, stop(): void }>} */
export async function localDynamodb() {
  const { DYNAMODB_ENDPOINT } = process.env;
  if (DYNAMODB_ENDPOINT) return { endpoint: DYNAMODB_ENDPOINT, stop() {} };
  const server = dynalite({ createTableMs: 0, updateTableMs: 0, deleteTableMs: 0 });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { endpoint: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}

/** @param {string} endpoint */
export function localClient(endpoint) {
  const credentials = { accessKeyId: "local", secretAccessKey: "local" };
  return new DynamoDBClient({ endpoint, region: "eu-west-1", credentials });
}

/**
 * @param {DynamoDBClient} client
 * @param {readonly string[]} tables
 */
export async function createTables(client, tables) {
  for (const table of tables) {
    await client.send(new CreateTableCommand(dynamodbTable(table)));
    await waitUntilTableExists(
      { client, minDelay: 0.01, maxDelay: 0.1, maxWaitTime: 10 },
      { TableName: table },
    );
  }
}
