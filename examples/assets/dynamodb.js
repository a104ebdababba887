/** Assets in DynamoDB, written so that the same write twice is one: an upsert, and a write that names the version it replaces. */
import { NevertwiceError } from "nevertwice";

/**
 * @typedef {{ id: string, facility: string, state: string, load: number }} Asset
 * @typedef {{ id: string, occurredAt: string }} Cause the event that a write is for
 */

const NAMES = { "#facility": "facility", "#state": "state", "#load": "load", "#version": "version" };
const MORE_NAMES = { "#event": "event", "#at": "occurredAt" };
const SET = "SET #facility = :facility, #state = :state, #load = :load, #event = :event, #at = :at";

/**
 * @param {import("@aws-sdk/lib-dynamodb").DynamoDBDocument} client
 * @param {string} table whose key is `id`
 */
export function assetsIn(client, table) {
  /**
   * @param {Asset} asset
   * @param {Cause} cause
   * @param {string} condition
   * @param {number} [expected]
   * @returns {Promise<boolean>} false if the condition did not hold
   */
  async function setIf({ id, facility, state, load }, cause, condition, expected) {
    const values = { ":facility": facility, ":state": state, ":load": load, ":event": cause.id };
    const versions =
      expected === undefined ? { ":none": 0, ":one": 1 } : { ":expected": expected, ":one": 1 };
    const before = expected === undefined ? "if_not_exists(#version, :none)" : ":expected";
    try {
      await client.update({
        TableName: table,
        Key: { id },
        UpdateExpression: `${SET}, #version = ${before} + :one`,
        ConditionExpression: condition,
        ExpressionAttributeNames: { ...NAMES, ...MORE_NAMES },
        ExpressionAttributeValues: { ...values, ...versions, ":at": cause.occurredAt },
      });
      return true;
    } catch (error) {
      if (error instanceof Error && error.name === "ConditionalCheckFailedException") return false;
      throw error;
    }
  }

  return {
    /**
     * Creates or replaces. The time is the event's own and not the clock's, and the item says which event it is from: so a
     * repetition changes nothing, and an event that comes late does not undo a later one.
     *
     * @param {Asset} asset
     * @param {Cause} cause
     */
    async upsert(asset, cause) {
      return setIf(asset, cause, "attribute_not_exists(id) OR (#event <> :event AND #at <= :at)");
    },

    /**
     * Replaces version `expected` and no other; 0 creates. Answers the new version.
     *
     * @param {Asset} asset
     * @param {number} expected
     * @param {Cause} cause
     */
    async write(asset, expected, cause) {
      const condition = expected === 0 ? "attribute_not_exists(id)" : "#version = :expected";
      if (await setIf(asset, cause, condition, expected)) return expected + 1;
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
      const { Item } = await client.get({ TableName: table, Key: { id }, ConsistentRead: true });
      return /** @type {(Asset & { version: number }) | undefined} */ (Item);
    },
  };
}
