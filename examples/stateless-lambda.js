/** Two instances of a stateless function on one database, with events that are duplicated, concurrent, late or invalid. */
import assert from "node:assert/strict";
import { DynamoDBDocument } from "@aws-sdk/lib-dynamodb";
import { assetsIn } from "./assets/dynamodb.js";
import { createTables, localClient, localDynamodb } from "./assets/local-dynamodb.js";

const { endpoint, stop } = await localDynamodb();
const client = localClient(endpoint);
const [ASSETS_TABLE, RECORDS_TABLE] = [`assets-${process.pid}`, `records-${process.pid}`];
await createTables(client, [ASSETS_TABLE, RECORDS_TABLE]);
const assets = assetsIn(DynamoDBDocument.from(client), ASSETS_TABLE);

// What Lambda provides: environment variables, and a cold start for each instance.
const account = { AWS_REGION: "eu-west-1", AWS_ACCESS_KEY_ID: "local", AWS_SECRET_ACCESS_KEY: "local" };
Object.assign(process.env, account, { AWS_ENDPOINT_URL_DYNAMODB: endpoint, ASSETS_TABLE, RECORDS_TABLE });
const [{ handler: first }, { handler: second }] = await Promise.all([
  import("./stateless/handler.js"),
  import(/** @type {"./stateless/handler.js"} */ ("./stateless/handler.js?another")),
]);
/** Hides the function's own log. */
const { log } = console;
console.log = () => {};

let events = 0;
/**
 * @param {string} type
 * @param {Record<string, unknown>} more
 */
function createEvent(type, more = {}) {
  const detail = { assetId: "pump-1", facilityId: "north", ...more };
  return { id: `event-${++events}`, "detail-type": type, time: `2026-01-01T12:0${events}:00Z`, detail };
}

const registered = createEvent("asset.registered");
await first(registered);
await second(registered);
assert.equal((await assets.read("pump-1"))?.version, 1);
log("registered, on two instances: version 1");

const adjustments = Array.from({ length: 5 }, () => createEvent("asset.load_adjusted", { by: 10 }));
await Promise.all(adjustments.map((event, index) => [first, second][index % 2]?.(event)));
await Promise.all(adjustments.map((event) => second(event)));
const pump = await assets.read("pump-1");
assert.deepEqual([pump?.load, pump?.version], [50, 6]);
log("five adjustments at once, and all of them again: the load is 50");

const twice = createEvent("asset.load_adjusted", { by: 1 });
// The second delivery gets `later`, and finds the event done when it comes again.
const ends = await Promise.allSettled([first(twice), second(twice)]);
assert(ends.some(({ status }) => status === "fulfilled"));
await first(twice);
assert.equal((await assets.read("pump-1"))?.load, 51);
log("one event on both at once: done once");

await assert.rejects(
  first(createEvent("asset.painted")),
  (error) => error instanceof Error && String(error.cause).includes("unknown event type: asset.painted"),
);
log("an unknown type: an error, for the dead-letter queue");

client.destroy();
stop();
