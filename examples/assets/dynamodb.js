/** Assets in DynamoDB, written so that the same write twice is one: an upsert, and a write that names the version it replaces. */
import { NevertwiceError } from "nevertwice";
import { placeOf } from "./event-place.js";

/**
 * @typedef {{ id: string, facility: string, state: string, load: number }} Asset
 * @typedef {import("./event-place.js").Cause} Cause
 */

/** What an asset is, and its version. */
const NAMES = { "#facility": "facility", "#state": "state", "#load": "load", "#version": "version" };
/** The place of the latest upsert. `occurredAt` is a number of milliseconds. */
const PLACE_NAMES = { "#sequence": "sequence", "#at": "occurredAt", "#event": "event" };
/** The events of all versioned writes. */
const APPLIED_NAMES = { "#applied": "applied" };

const SET = "SET #facility = :facility, #state = :state, #load = :load";
const SET_PLACE = "#sequence = :sequence, #at = :at, #event = :event";

/** Each decides only if those before it are equal, as letters do in a dictionary. AND binds closer than OR. */
const IS_LATER = `#event <> :event AND (#sequence < :sequence
  OR #sequence = :sequence AND #at < :at
  OR #sequence = :sequence AND #at = :at AND #event < :event)`;

/** @param {Cause} cause */
function placeValues(cause) {
  const { sequence, at, event } = placeOf(cause);
  return { ":sequence": sequence, ":at": at, ":event": event };
}

/**
 * @param {import("@aws-sdk/lib-dynamodb").DynamoDBDocument} client
 * @param {string} table whose key is `id`
 */
export function assetsIn(client, table) {
  /**
   * @param {Asset} asset
   * @param {{ update: string, condition: string, names: Record<string, string>, values: Record<string, unknown> }} how
   * @returns {Promise<boolean>} false if the condition did not hold
   */
  async function updateIf({ id, facility, state, load }, { update, condition, names, values }) {
    try {
      await client.update({
        TableName: table,
        Key: { id },
        UpdateExpression: update,
        ConditionExpression: condition,
        ExpressionAttributeNames: { ...NAMES, ...names },
        ExpressionAttributeValues: { ...values, ":facility": facility, ":state": state, ":load": load },
      });
      return true;
    } catch (error) {
      if (error instanceof Error && error.name === "ConditionalCheckFailedException") return false;
      throw error;
    }
  }

  /** @param {string} id */
  async function itemOf(id) {
    const { Item } = await client.get({ TableName: table, Key: { id }, ConsistentRead: true });
    return Item;
  }

  return {
    /**
     * Creates or replaces. The item says which event it is from, and only a later one replaces it: so a repetition changes
     * nothing, and an event that comes late does not undo a later one.
     *
     * @param {Asset} asset
     * @param {Cause} cause
     */
    async upsert(asset, cause) {
      return updateIf(asset, {
        update: `${SET}, ${SET_PLACE}, #version = if_not_exists(#version, :none) + :one`,
        condition: `attribute_not_exists(id) OR ${IS_LATER}`,
        names: PLACE_NAMES,
        values: { ...placeValues(cause), ":none": 0, ":one": 1 },
      });
    },

    /**
     * Replaces version `expected` and no other; 0 creates. Answers the new version, or the present one if this event was
     * applied before: what adds up must not be added again. Which upsert is the latest does not change by it.
     *
     * @param {Asset} asset
     * @param {number} expected
     * @param {Cause} cause
     */
    async write(asset, expected, cause) {
      const place = placeValues(cause);
      const isNew = expected === 0;
      const versions = { ":next": expected + 1, ":events": new Set([cause.id]) };
      const isWritten = await updateIf(asset, {
        update: `${SET}, #version = :next${isNew ? `, ${SET_PLACE}` : ""} ADD #applied :events`,
        condition: isNew
          ? "attribute_not_exists(id)"
          : "#version = :expected AND NOT contains(#applied, :event)",
        names: isNew ? { ...PLACE_NAMES, ...APPLIED_NAMES } : APPLIED_NAMES,
        values: { ...versions, ...(isNew ? place : { ":expected": expected, ":event": cause.id }) },
      });
      if (isWritten) return expected + 1;
      const found = await itemOf(asset.id);
      if (found?.applied?.has(cause.id)) return /** @type {number} */ (found.version);
      throw new NevertwiceError(
        "concurrent-modification",
        `asset ${asset.id} is not at version ${expected}: read it again.`,
      );
    },

    /**
     * @param {string} id
     * @returns {Promise<(Asset & { version: number }) | undefined>}
     */
    async read(id) {
      return /** @type {(Asset & { version: number }) | undefined} */ (await itemOf(id));
    },
  };
}
