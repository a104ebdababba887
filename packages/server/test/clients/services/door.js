/** What the programs of the doors share: their routes, and what they get from the service. */
import { once } from "node:events";

/** @typedef {{ status: number, body: object }} ServiceAnswer */

/**
 * @typedef {object} Door
 * @property {() => import("nevertwice").Guard} guard creates it
 * @property {number} port
 * @property {(body: string, how?: { key?: string | undefined, cut?: () => void }) => Promise<ServiceAnswer | undefined>} serve
 *   does the work that the body names; undefined if the connection is lost
 */

/** @typedef {(door: Door) => Promise<import("node:net").AddressInfo>} OpenDoor */

/** The name of the derived key that the ledger has, and by which `reconcile` finds its effect. */
export const DERIVED = "ledger";

export const ANYONE = /** @type {const} */ ({ scope: "anyone" });

const WAITS = /** @type {const} */ ({ onPending: "wait", waitMs: 30_000 });

/** The routes of the doors, with the options of the adapters. Below `/required`, each refuses a request without a key. */
export const ROUTES = [
  { path: "/v1/charges", options: /** @type {const} */ ({ profile: "stripe-v1" }) },
  ...["", "/required"].flatMap((prefix) => {
    const required = prefix !== "";
    return [
      { path: `${prefix}/waiting/orders`, options: { ...WAITS, required } },
      ...["/orders", "/v1/chat/completions", "/v1/messages"].map((path) => ({
        path: prefix + path,
        options: { required },
      })),
    ];
  }),
];

/**
 * @param {import("node:http").Server} server
 * @param {number} port
 * @returns {Promise<import("node:net").AddressInfo>}
 */
export async function listening(server, port) {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return /** @type {import("node:net").AddressInfo} */ (server.address());
}
