/** Requests to a reservation store, as `createReservations` sends them. */
import { randomUUID } from "node:crypto";
import {
  type ActionName,
  type ActionRequest,
  digestParameters,
  type Parameters,
} from "../../src/reservations/action-request.ts";
import type { Rules } from "../../src/reservations/store.ts";

export const HOUR_MS = 3_600_000;
export const NAMESPACE = "n";

export const RULES: Rules = {
  namespace: NAMESPACE,
  windowMs: HOUR_MS,
  historyMs: 0,
  maxDurationMs: HOUR_MS,
  available: undefined,
};

export function asked(action: ActionName, parameters: Parameters, key: string = randomUUID()): ActionRequest {
  const digest = digestParameters(action, parameters);
  const keyId = `key-${key}`;
  return {
    action,
    parameters,
    digest,
    keyId,
    namespace: NAMESPACE,
    scope: "",
    key,
    newId: randomUUID(),
    salt: "salt",
  };
}

export function toHold(resource: string, more: Parameters = {}, key?: string): ActionRequest {
  return asked("placeHold", { resource, requester: "ann", durationMs: HOUR_MS, units: 1, ...more }, key);
}

/** How many rows the tables have before anything is asked, and after one hold. */
export const NOTHING = { keys: 0, resources: 0, commitments: 0, events: 0, checkpoints: 0 };
export const ONE_HOLD = { keys: 1, resources: 1, commitments: 1, events: 1, checkpoints: 1 };
