/** Opens a store of the built library by its URL: the same way in the test and in its processes. */
import { openStore } from "../../../dist/stores/open.js";

/**
 * @param {string} url
 * @param {{ migrate?: boolean }} [options]
 * @returns {Promise<import("../../../src/core/store.ts").Store>}
 */
export async function open(url, options) {
  return url.startsWith("dynamodb:") ? openDynamodb(new URL(url)) : openStore(url, options);
}

/**
 * All callers are on one machine and share its clock. So there is no margin for different clocks: takeovers would wait for it.
 *
 * @param {URL} url
 */
async function openDynamodb({ host, pathname, searchParams }) {
  const { DynamoDBClient } = await import("@aws-sdk/client-dynamodb");
  const { DynamoDBDocumentClient } = await import("@aws-sdk/lib-dynamodb");
  const { dynamodbStore } = await import("../../../dist/stores/dynamodb.js");
  const client = new DynamoDBClient({
    region: host,
    endpoint: searchParams.get("endpoint") ?? "",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
  });
  const store = dynamodbStore({
    client: DynamoDBDocumentClient.from(client),
    table: pathname.slice(1),
    clockSkewMs: 0,
  });
  const close = async () => {
    await store.close();
    client.destroy();
  };
  return { ...store, close };
}
