/**
 * A stateless Lambda function behind EventBridge. Clients are created once, at the cold start, and all state is in two tables. An
 * event that is delivered again, to any instance, is processed once.
 */
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { DynamoDBDocument } from "@aws-sdk/lib-dynamodb";
import { createGuard } from "nevertwice";
import { consumer } from "nevertwice/events";
import { dynamodbStore } from "nevertwice/stores/dynamodb";
import { assetsIn } from "../assets/dynamodb.js";

/**
 * @typedef {import("../assets/event-place.js").Cause & { type: string, payload: Record<string, unknown> }} Envelope
 * @typedef {{ id: string, "detail-type": string, time: string, detail: Record<string, unknown> }} EventBridgeEvent
 */

const DAY_MS = 86_400_000;
const { ASSETS_TABLE = "assets", RECORDS_TABLE = "nevertwice" } = process.env;

const client = DynamoDBDocument.from(new DynamoDBClient({}));
const assets = assetsIn(client, ASSETS_TABLE);
// DynamoDB removes expired records by itself, so the guard does not purge.
const store = dynamodbStore({ client, table: RECORDS_TABLE });
const guard = createGuard({ store, namespace: "assets", purgeEveryMs: 0 });

/** The work for each type of event. All types go through the consumer below, so a new type is guarded too. */
const WORK = {
  /** @param {Envelope} event */
  async "asset.registered"(event) {
    await assets.upsert({ ...readAsset(event), state: "online", load: 0 }, event);
  },

  /** @param {Envelope} event */
  async "asset.state_changed"(event) {
    const { state, load } = event.payload;
    await assets.upsert({ ...readAsset(event), state: String(state), load: Number(load) }, event);
  },

  /** @param {Envelope} event */
  async "asset.load_adjusted"(event) {
    const { id } = readAsset(event);
    const found = await assets.read(id);
    if (found === undefined) throw new Error(`there is no asset ${id} yet`);
    const load = found.load + Number(event.payload.by);
    // Added once, even if a crash prevented the guard from recording it. If another event was written in between, this
    // throws concurrent-modification, and the consumer tries again.
    await assets.write({ ...found, load }, found.version, event);
  },
};

class PermanentError extends Error {}

const events = consumer(guard, {
  name: "asset-events",
  key: (/** @type {Envelope} */ event) => event.id,
  // The same id with other content is never processed, and the log shows `alarm`.
  fingerprint: ({ type, payload }) => ({ type, payload }),
  async work(event) {
    const work = WORK[/** @type {keyof typeof WORK} */ (event.type)];
    if (!Object.hasOwn(WORK, event.type)) throw new PermanentError(`unknown event type: ${event.type}`);
    await work(event);
    return { asset: event.payload.assetId };
  },
  retry: { max: 20, baseMs: 5, capMs: 200 },
  isPermanent: (error) => error instanceof PermanentError || error instanceof RangeError,
  retentionMs: 30 * DAY_MS,
  onEvent: (event) => console.log(JSON.stringify({ ...event, error: String(event.error ?? "") })),
});

/**
 * Lambda calls it again after an error, and finally moves the event to the destination that you set up.
 *
 * @param {EventBridgeEvent} event
 * @param {{ getRemainingTimeInMillis(): number }} [context]
 */
export async function handler(event, context) {
  const maxLeaseMs = context?.getRemainingTimeInMillis();
  const delivery = await events.handle(toEnvelope(event), { maxLeaseMs });
  if (delivery.verdict !== "acknowledge")
    throw new Error(`not done: ${delivery.status}`, {
      cause: "error" in delivery ? delivery.error : undefined,
    });
  return "value" in delivery ? delivery.value : undefined;
}

/**
 * EventBridge's times are whole seconds, so a producer should number its events to define their order.
 *
 * @param {EventBridgeEvent} event
 * @returns {Envelope}
 */
function toEnvelope({ id, "detail-type": type, time, detail }) {
  const { sequence } = detail;
  return {
    id,
    type,
    occurredAt: time,
    payload: detail,
    ...(sequence === undefined ? {} : { sequence: Number(sequence) }),
  };
}

/** @param {Envelope} event */
function readAsset({ payload: { assetId, facilityId } }) {
  if (typeof assetId !== "string" || assetId === "") throw new PermanentError("the payload has no assetId");
  return { id: assetId, facility: String(facilityId) };
}
