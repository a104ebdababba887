/**
 * A Lambda function behind EventBridge that keeps nothing between its calls: what it needs is made once, at its cold
 * start, and what it knows is in two tables. An event that is delivered again, to whichever instance, is done once.
 */
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { DynamoDBDocument } from "@aws-sdk/lib-dynamodb";
import { createGuard } from "nevertwice";
import { consumer } from "nevertwice/events";
import { dynamodbStore } from "nevertwice/stores/dynamodb";
import { assetsIn } from "../assets/dynamodb.js";

/**
 * @typedef {{ id: string, type: string, occurredAt: string, payload: Record<string, unknown> }} Envelope
 * @typedef {{ id: string, "detail-type": string, time: string, detail: Record<string, unknown> }} EventBridgeEvent
 */

const DAY_MS = 86_400_000;
const { ASSETS_TABLE = "assets", RECORDS_TABLE = "nevertwice" } = process.env;

const client = DynamoDBDocument.from(new DynamoDBClient({}));
const assets = assetsIn(client, ASSETS_TABLE);
// The table removes what is past its time by itself: there is nothing to purge from here.
const store = dynamodbStore({ client, table: RECORDS_TABLE });
const guard = createGuard({ store, namespace: "assets", purgeEveryMs: 0 });

/** What is done for each type of event. They are told apart here and guarded below: a new one is guarded too. */
const WORK = {
  /** @param {Envelope} event */
  async "asset.registered"(event) {
    await assets.upsert({ ...assetOf(event), state: "online", load: 0 }, event);
  },

  /** @param {Envelope} event */
  async "asset.state_changed"(event) {
    const { state, load } = event.payload;
    await assets.upsert({ ...assetOf(event), state: String(state), load: Number(load) }, event);
  },

  /** @param {Envelope} event */
  async "asset.load_adjusted"(event) {
    const { id } = assetOf(event);
    const found = await assets.read(id);
    if (found === undefined) throw new Error(`there is no asset ${id} yet`);
    const load = found.load + Number(event.payload.by);
    // If somebody else was quicker this throws concurrent-modification, and the consumer tries again.
    await assets.write({ ...found, load }, found.version, event);
  },
};

class Hopeless extends Error {}

const events = consumer(guard, {
  name: "asset-events",
  key: (/** @type {Envelope} */ event) => event.id,
  // The same id with another content is never done, and `alarm` is what the log says.
  fingerprint: ({ type, payload }) => ({ type, payload }),
  async work(event) {
    const work = WORK[/** @type {keyof typeof WORK} */ (event.type)];
    if (!Object.hasOwn(WORK, event.type)) throw new Hopeless(`unknown event type: ${event.type}`);
    await work(event);
    return { asset: event.payload.assetId };
  },
  retry: { max: 20, baseMs: 5, capMs: 200 },
  isPermanent: (error) => error instanceof Hopeless,
  retentionMs: 30 * DAY_MS,
  onEvent: (event) => console.log(JSON.stringify({ ...event, error: String(event.error ?? "") })),
});

/**
 * Lambda calls it again after it threw, and puts the event where you told it to in the end.
 *
 * @param {EventBridgeEvent} event
 * @param {{ getRemainingTimeInMillis(): number }} [context]
 */
export async function handler(event, context) {
  const maxLeaseMs = context?.getRemainingTimeInMillis();
  const delivery = await events.handle(envelopeOf(event), { maxLeaseMs });
  if (delivery.verdict !== "acknowledge")
    throw new Error(`not done: ${delivery.status}`, {
      cause: "error" in delivery ? delivery.error : undefined,
    });
  return "value" in delivery ? delivery.value : undefined;
}

/**
 * @param {EventBridgeEvent} event
 * @returns {Envelope}
 */
function envelopeOf({ id, "detail-type": type, time, detail }) {
  return { id, type, occurredAt: time, payload: detail };
}

/** @param {Envelope} event */
function assetOf({ payload: { assetId, facilityId } }) {
  if (typeof assetId !== "string" || assetId === "") throw new Hopeless("the payload has no assetId");
  return { id: assetId, facility: String(facilityId) };
}
