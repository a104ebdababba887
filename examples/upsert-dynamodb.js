/** Writes that are idempotent by themselves, on DynamoDB: an upsert, and a write that names the version it replaces. */
import { DynamoDBDocument } from "@aws-sdk/lib-dynamodb";
import { assetsIn } from "./assets/dynamodb.js";
import { createTables, localClient, localDynamodb } from "./assets/local-dynamodb.js";
import { tour } from "./assets/tour.js";

const { endpoint, stop } = await localDynamodb();
const client = localClient(endpoint);
const table = `assets-${process.pid}`;
await createTables(client, [table]);

await tour(assetsIn(DynamoDBDocument.from(client), table));

client.destroy();
stop();
